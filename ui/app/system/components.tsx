import { createMemo, Show } from "solid-js";
import { describePart, groupParts, isIll, type PartGroup } from "#proto/system/parts.ts";
import type { SystemPart } from "#proto/system/report.ts";
import { type RecordColumns, RecordTable, TwoLines } from "../design/record-table.tsx";
import { List } from "../design/report-parts.tsx";
import { WithCode } from "../design/with-code.tsx";
import { capitalised, formatCountOf, plainText } from "../format/format.ts";
import { Time } from "../shell/page.tsx";
import { PartMark } from "./part-mark.tsx";

/** A row for each component, those that need attention first, which unfolds to its checks. */
export const Components = (props: { parts: readonly SystemPart[] }) => {
  const groups = createMemo(
    () => new Map(groupParts(props.parts).map((group) => [group.title, group])),
  );
  const worstOf = (title: string) => groups().get(title)?.worst;
  // A row is its title, so that it stays unfolded when the report is renewed.
  const columns: RecordColumns<string> = {
    Component: (title) => (
      <TwoLines second={<PartMark state={worstOf(title)?.state ?? "disabled"} />}>
        <strong>{plainText(title)}</strong>
      </TwoLines>
    ),
    Since: (title) => <Show when={worstOf(title)?.since}>{(at) => <Time at={at()} />}</Show>,
    Status: (title) => <Show when={groups().get(title)}>{(group) => <Says of={group()} />}</Show>,
  };
  return (
    <RecordTable
      label="Components, those that need attention first"
      columns={columns}
      rows={[...groups().keys()]}
      isFailed={(title) => worstOf(title)?.state === "not_ready"}
    />
  );
};

/** The detail of a component's worst check, what to do about it, and all of its checks. */
const Says = (props: { of: PartGroup }) => {
  const checks = createMemo(() => mergeAlike(props.of.parts));
  return (
    <>
      <p>{sentenceOf(props.of.worst)}</p>
      <Show when={isIll(props.of.worst)}>
        <p class="quiet">
          What to do: <WithCode text={describePart(props.of.worst).remedy} />
        </p>
      </Show>
      <Show when={checks().length > 1}>
        <details>
          <summary>{formatCountOf(checks().length, "check")}</summary>
          <List class="stack gap-1" of={checks()}>
            {(check) => <CheckLine of={check} />}
          </List>
        </details>
      </Show>
    </>
  );
};

/** The detail of a check, on which cores, and since when. */
const CheckLine = (props: { of: Check }) => (
  <>
    <PartMark state={props.of.state} /> {sentenceOf(props.of)}{" "}
    <span class="quiet">
      {plainText(props.of.cores)}
      <Show when={props.of.since}>
        {(at) => (
          <>
            {" "}
            since <Time at={at()} />
          </>
        )}
      </Show>
    </span>
  </>
);

const sentenceOf = (part: SystemPart) =>
  `${capitalised(describePart(part).title)}: ${plainText(part.detail)}`;

/** A part, with the cores that say the same of it. */
interface Check extends SystemPart {
  cores: string;
}

/** Returns parts, those of several cores that say the same as one. */
const mergeAlike = (parts: readonly SystemPart[]): Check[] =>
  [
    ...Map.groupBy(parts, ({ name, state, detail }) =>
      JSON.stringify([name, state, detail]),
    ).values(),
  ].flatMap((alike) =>
    alike
      .slice(0, 1)
      .map((first) => ({ ...first, cores: alike.flatMap(({ of }) => of ?? []).join(", ") })),
  );
