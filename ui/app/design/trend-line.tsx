import { trendHeight, trendPath } from "./trend-path.ts";
import "./trend-line.css";

/** A small line of figures over time, as wide as its place. A click picks a point of it, which the keyboard reaches elsewhere. */
export const TrendLine = (props: {
  points: readonly (number | null)[];
  /** What the line shows, in words. */
  label: string;
  onPick: (index: number) => void;
}) => (
  // biome-ignore lint/a11y/useKeyWithClickEvents: see above
  <svg
    class="trend"
    role="img"
    viewBox={`-0.5 0 ${props.points.length} ${trendHeight}`}
    preserveAspectRatio="none"
    onClick={({ clientX, currentTarget }) => {
      const { left, width } = currentTarget.getBoundingClientRect();
      props.onPick(Math.floor(((clientX - left) / width) * props.points.length));
    }}
  >
    <title>{props.label}</title>
    <path d={trendPath(props.points)} vector-effect="non-scaling-stroke" />
  </svg>
);
