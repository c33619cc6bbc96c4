import { Notice } from "./report-parts.tsx";

/** Reports that a link has an unknown filter: rows under another filter could be mistaken for those that its sender meant. */
export const UnknownFilter = (props: {
  title: string;
  level?: "h1";
  parameter: string | undefined;
  /** What is not shown: `hosts`. */
  what: string;
  href: string;
}) => (
  <Notice
    title={props.title}
    {...(props.level && { level: props.level })}
    isFault
    href={props.href}
    link={`Show all ${props.what}`}
  >
    <p>
      This link has a filter that the page does not understand: <code>{props.parameter}</code>. No{" "}
      {props.what} are shown, because others than those it meant could appear.
    </p>
  </Notice>
);
