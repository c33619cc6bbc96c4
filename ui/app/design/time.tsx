import { formatAgo, formatTimestamp } from "../format/format.ts";

/** A timestamp, absolute, with its age at `asOf` on hover and for screen readers. */
export const Time = (props: { at: string; asOf: number }) => (
  <time datetime={props.at} title={formatAgo(props.at, props.asOf)}>
    {formatTimestamp(props.at)}
  </time>
);
