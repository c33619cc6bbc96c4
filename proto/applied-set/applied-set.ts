/** The objects that `svc-admin apply` last created or changed by the files of a repository (docs/plan.md). */

import * as v from "valibot";
import { minuteMs } from "#kit/clock.ts";
import { Flag, Id, Identifier, Integer, IsoTimestamp, ListOf, Sha256Hex, Text } from "../values.ts";
import { WatchBody } from "../watch/watch.ts";

/** The largest set as JSON, in bytes: below what one address may send at once. A host that has a config needs 39. */
export const appliedSetBytesMax = 12 * 1024 * 1024;

/**
 * How long an apply excludes others of its set after its last write, in milliseconds. A running apply writes the set again in time; after a kill,
 * another apply can continue when this time has passed.
 */
export const applyLeaseMs = 2 * minuteMs;

/** The name of a set, which its files give. */
export const AppliedSetName = v.pipe(
  Text,
  v.regex(
    /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
    "must be 1 to 63 lowercase letters, digits and dashes",
  ),
);

/** Whether apply created the object. Apply changes an object that it found, but never deletes it. */
const made = Flag;

const { name, filter, more_than, for_seconds, receivers } = WatchBody.entries;

const AppliedWatch = v.strictObject({
  name,
  filter,
  more_than: more_than.wrapped,
  for_seconds: for_seconds.wrapped,
  receivers: receivers.wrapped,
  /** Null until it has been created. */
  id: v.nullable(Id),
  made,
});

/** The objects that are in the files, as apply left them. */
export const AppliedContent = v.strictObject({
  /** False while an apply runs. After a kill it stays false, and the content is what the apply intended. */
  complete: Flag,
  policies: ListOf(v.strictObject({ name: Identifier(120), made })),
  watches: ListOf(AppliedWatch),
  inventory: v.nullable(v.strictObject({ etag: Identifier(70), made })),
  /** The hosts by the hash of the config that they have. */
  assignments: ListOf(v.strictObject({ config_hash: Sha256Hex, made, identity_ids: ListOf(Id) })),
});

/** The objects that are in the files, as apply left them. */
export type AppliedContent = v.InferOutput<typeof AppliedContent>;

/** Body of `PUT /v1/collector/applied-sets/{name}`: the revision that it replaces, 0 for none, and the content. */
export const AppliedSetBody = v.strictObject({
  revision: Integer(0, 2 ** 31 - 2),
  content: AppliedContent,
});

/** A set as core keeps it. */
export const AppliedSet = v.strictObject({
  name: v.string(),
  /** The revision to replace. While an apply runs, the one before its own, so that core rejects another apply. */
  revision: v.number(),
  content: AppliedContent,
  updated_at: IsoTimestamp,
  updated_by_name: v.string(),
});

/** A set as core keeps it. */
export type AppliedSet = v.InferOutput<typeof AppliedSet>;
