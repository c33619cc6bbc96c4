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
