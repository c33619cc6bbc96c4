/**
 * Labels of hosts: `env`, `team`, `region`, …, each with one value. The syntax is that of Kubernetes' labels without prefixes and
 * without empty values, so a label is one word of the query language and one cell of a table.
 */

import * as v from "valibot";
import { isRecord } from "#proto/values.ts";

/** The most labels of one origin: a collector's config, or an enrollment policy. A host has those of both. */
export const labelsMax = 16;

/** A key or a value, case-sensitive. */
const labelWord = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

const wordRule =
  "must be 1 to 63 letters, digits, dots, dashes or underscores, and begin and end with a letter or digit";

/** Keys that valibot silently omits from a record. */
const reservedKeys: ReadonlySet<string> = new Set(["constructor", "prototype"]);

/** Reports whether `text` can be a label's key. */
export const isLabelKey = (text: string): boolean =>
  labelWord.test(text) && !reservedKeys.has(text);

/** Reports whether `text` can be a label's value. */
export const isLabelValue = (text: string): boolean => labelWord.test(text);

/** Stands for any value in a filter: `env:*` finds the hosts that have the label. */
export const anyLabelValue = "*";

/** A label as a filter names it: `env:prod`, or `env:*`. */
export const labelPair = new RegExp(
  `${labelWord.source.slice(0, -1)}:(?:\\*|${labelWord.source.slice(1, -1)})$`,
);

/** Splits a pair of `labelPair`. */
export const splitLabelPair = (pair: string): { key: string; value: string } => {
  const at = pair.indexOf(":");
  return { key: pair.slice(0, at), value: pair.slice(at + 1) };
};

/** Labels by key, at most `labelsMax`. */
export const Labels = v.pipe(
  v.custom<Record<string, string>>(isRecord, "must be an object of labels"),
  v.metadata({
    jsonSchema: {
      type: "object",
      propertyNames: { pattern: labelWord.source },
      additionalProperties: { type: "string", pattern: labelWord.source },
      maxProperties: labelsMax,
    },
  }),
  v.check((labels) => Object.keys(labels).every(isLabelKey), `each key ${wordRule}`),
  v.record(v.string(), v.pipe(v.string("must be a string"), v.check(isLabelValue, wordRule))),
  v.maxEntries(labelsMax, `must have at most ${labelsMax} entries`),
);

/** Labels by key. */
export type Labels = Record<string, string>;
