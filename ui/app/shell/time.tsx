import { type JSX, Show } from "solid-js";
import { formatAgo, formatTimestamp } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

/** A timestamp, absolute and in the chosen zone, with its age at `asOf` on hover. */
export const Time = (props: { at: string; asOf: number }) => {
  const { times } = usePageContext();
  return (
    <time datetime={props.at} title={formatAgo(props.at, props.asOf)}>
      {formatTimestamp(props.at, times.zone())}
    </time>
  );
};

/** A timestamp with a second line below it, such as who did it; the words of `none` where nothing has happened. */
export const TimeCell = (props: {
  at: string | null;
  asOf: number;
  none?: string;
  second?: JSX.Element;
}) => (
  <Show when={props.at} fallback={<span class="quiet">{props.none}</span>}>
    {(at) => (
      <>
        <Time at={at()} asOf={props.asOf} />
        <Show when={props.second}>
          <span class="second-line">{props.second}</span>
        </Show>
      </>
    )}
  </Show>
);
