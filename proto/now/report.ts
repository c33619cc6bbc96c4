/** *Now* as core reports it: what needs a person (docs/fleet-page.md). */
import * as v from "valibot";
import {
  Id,
  Identifier,
  IsoTimestamp,
  NumberOrNull,
  OutageView,
  TextOrNull,
  TimestampOrNull,
  WholeNumber,
} from "../values.ts";

/** The kinds of lines, in their order among lines of one severity. `unread`: core could not read a source of lines. */
export const nowKinds = [
  "watch",
  "state",
  "rollout",
  "ahead",
  "hours",
  "system",
  "missing",
  "unread",
] as const;

/** The most lines of a report. */
export const nowLinesMax = 200;

/** Who has taken a line, when, and what for: response of `POST /v1/now/claims`; `DELETE /v1/now/claims/{id}` releases it. */
export const LineClaim = v.strictObject({
  id: Id,
  by: v.string(),
  at: IsoTimestamp,
  note: TextOrNull,
  /** Whether this person may still see lines. One of somebody who may not can be taken by anybody. */
  has_access: v.boolean(),
});

/** One thing that needs a person. */
export const NowLine = v.strictObject({
  /** The same as long as its cause lasts, and an anchor of the page: `/#watch:…`. */
  key: v.string(),
  kind: v.picklist(nowKinds),
  severity: v.picklist(["critical", "warning"]),
  /** When its cause began, which a restart of core does not change; null where nobody recorded that. */
  since: TimestampOrNull,
  /** What `path` shows as many rows of; null for a line that counts nothing. */
  count: NumberOrNull,
  /** One sentence with its number. */
  sentence: v.string(),
  /** A second sentence: what most of them have in common, or the worst of them. */
  evidence: TextOrNull,
  /** The address within web that shows what is counted. */
  path: v.string(),
  taken: v.nullable(LineClaim),
});

/** One thing that needs a person. */
export type NowLine = v.InferOutput<typeof NowLine>;

/** Reports whether somebody works on a line, who still has access. */
export const isHeld = ({ taken }: Pick<NowLine, "taken">): boolean => taken?.has_access === true;

/** A figure over the last 24 hours. */
export const NowStrip = v.strictObject({
  name: v.picklist(["fleet", "data", "changes"]),
  /** The words after its figure: `hosts need attention`. */
  label: v.string(),
  unit: v.picklist(["hosts", "bytes", "changes"]),
  /** The figure now, or of the newest whole step; null while there is none. */
  present: NumberOrNull,
  path: v.string(),
  step_seconds: v.number(),
  /** The end of the last step. */
  until: IsoTimestamp,
  /** A figure for each step, the oldest first; null where nothing was recorded. */
  points: v.array(NumberOrNull),
});

/** A figure over the last 24 hours. */
export type NowStrip = v.InferOutput<typeof NowStrip>;

/** Response of `GET /v1/now`. */
export const NowReport = v.strictObject({
  generated_at: IsoTimestamp,
  /** The worst first, taken ones below all others. */
  lines: v.array(NowLine),
  /** Lines beyond `nowLinesMax`. */
  lines_other: WholeNumber(),
  strip: v.array(NowStrip),
  /** Enrolled hosts; 0 before the first one, null while the fleet cannot be read. */
  hosts: v.nullable(WholeNumber()),
  /** How many watches have no line because they are silenced, in one sentence; absent without one. */
  silenced: v.optional(v.string()),
  /** Core's own outage: until it has ended no watch changes its state, and no state of a host. */
  held_by: v.optional(OutageView),
});

/** Response of `GET /v1/now`. */
export type NowReport = v.InferOutput<typeof NowReport>;

/** Body of `POST /v1/now/claims`: takes the line with this key, until its cause has ended. */
export const ClaimBody = v.strictObject({
  key: Identifier(300),
  note: v.optional(v.nullable(Identifier(500)), null),
});

/** Body of `POST /v1/now/claims`. */
export type ClaimBody = v.InferOutput<typeof ClaimBody>;
