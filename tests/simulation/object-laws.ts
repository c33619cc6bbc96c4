/**
 * Judges what a history left in its bucket. Its laws:
 * 1. What a row names is in its object, by its digest.
 * 2. An object that a row names is stored, by its own row: nothing deletes it.
 * 3. Every other object has a row, by which it is collected; unless the database went back and the row with it, or clocks let hours pass
 *    between drawing its name and writing it.
 * 4. An object describes its rows: the database whose it is, hosts, queues, ranges, places and digests.
 * 5. A database that went back has again what its objects have. Not of a host with a queue of several histories: another record may have
 *    the place; nor where the bucket has lost something of its host, or a listing was behind.
 * What the bucket itself has lost of an object, neither of these has.
 */
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { readFooter } from "#functions/store/ingest/object-footer.ts";
import {
  decodeReference,
  type ObjectReference,
  referencedName,
} from "#functions/store/ingest/object-reference.ts";
import {
  isOfDigest,
  readStoredBlock,
  storedEncodings,
} from "#functions/store/ingest/stored-envelope.ts";
import type { ObjectBlock } from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import { type Bucket, bucketLineage } from "./bucket.ts";
import type { Breach } from "./oracle.ts";
import type { BlockRow, StoredEnvelope, Tables } from "./tables.ts";

/** The laws by name. */
export const objectLaws = {
  has: "what a row names is in its object",
  isStored: "an object that a row names is stored",
  isKnown: "every object has a row",
  describes: "an object describes its rows",
  adopts: "a database that went back has what its objects have",
} as const;

interface Placed {
  columns: BlockRow["columns"];
  reference: ObjectReference;
  name: string;
}

/** Returns the laws that are broken. */
export const judgeObjects = async (
  tables: Tables,
  { state: { objects }, lost, revived }: Pick<Bucket, "state" | "lost" | "revived">,
  { hasGoneBack }: { hasGoneBack: boolean },
): Promise<Breach[]> => {
  const placed = tables.blocks.flatMap(({ columns }) => placedOf(columns));
  const named = new Set(placed.map(({ name }) => name));
  const breaches: Breach[] = [];
  const add = (law: string, names: Iterable<string>) => {
    const [first, ...others] = new Set(names);
    if (first) breaches.push({ law, detail: `${first} does not, nor ${others.length} others` });
  };
  const whole = placed.filter(({ name }) => !lost.has(name));
  const lacking = whole.filter(({ columns, reference, name }) => {
    const { offset, length } = reference;
    const data = objects.get(name)?.subarray(offset, offset + length);
    const digest = columns.get("digest");
    return !data || !digest || !isOfDigest(data, digest, zstdCodec);
  });
  add(
    objectLaws.has,
    lacking.map(({ name }) => name),
  );
  add(
    objectLaws.isStored,
    [...named].filter((name) => tables.objects.get(name)?.state !== 1),
  );
  const isKnown = (name: string) =>
    tables.objects.has(name) || tables.forgottenObjects.has(name) || revived.has(name);
  if (!hasGoneBack)
    add(
      objectLaws.isKnown,
      [...objects.keys()].filter((name) => !isKnown(name)),
    );
  const described = new Map<string, readonly string[]>();
  for (const name of named) described.set(name, await describedBy(name, objects.get(name)));
  const unlisted = whole.filter(({ name, ...row }) => !described.get(name)?.includes(rowOf(row)));
  add(
    objectLaws.describes,
    unlisted.map(({ name }) => name),
  );
  return breaches;
};

const placedOf = (columns: BlockRow["columns"]): Placed[] => {
  const object: number = storedEncodings.object;
  if (columns.get("encoding")?.readInt16BE() !== object) return [];
  const reference = decodeReference(columns.get("data") ?? new Uint8Array());
  return [{ columns, reference, name: referencedName(reference) }];
};

const rowOf = ({ columns, reference }: Omit<Placed, "name">): string =>
  [
    columns.get("host_id")?.toString(),
    columns.get("queue_id")?.toString("hex"),
    columns.get("first_sequence")?.readBigInt64BE(),
    columns.get("last_sequence")?.readBigInt64BE(),
    reference.encoding,
    reference.offset,
    reference.length,
    columns.get("digest")?.toString("hex"),
  ].join(" ");

/** Returns what a footer says of each block; nothing without a footer of this database. */
const describedBy = async (name: string, object: Uint8Array | undefined): Promise<string[]> => {
  const footer = await footerOf(name, object);
  if (footer?.lineage !== bucketLineage) return [];
  const lineOf = (hostId: string, queueId: Uint8Array, block: ObjectBlock) =>
    [
      hostId,
      queueId.toHex(),
      block.firstSequence,
      block.lastSequence,
      block.encoding,
      block.offset,
      block.length,
      block.digest.toHex(),
    ].join(" ");
  return footer.queues.flatMap(({ hostId, queueId, blocks }) =>
    blocks.map((block) => lineOf(hostId, queueId, block)),
  );
};

const footerOf = (name: string, object: Uint8Array | undefined) => {
  const read = async (_: string, range: { last: number } | { offset: number; length: number }) =>
    (object ?? new Uint8Array()).subarray("last" in range ? -range.last : range.offset);
  return readFooter({ read }, name).catch(() => undefined);
};

/** A range of a queue. */
export interface QueueRange {
  hostId: string;
  queueHex: string;
  from: number;
  through: number;
}

/** Returns the ranges of the rows whose object the bucket has lost. */
export const rangesLost = (tables: Tables, { lost }: Pick<Bucket, "lost">): QueueRange[] =>
  tables.blocks
    .flatMap(({ columns }) => placedOf(columns))
    .filter(({ name }) => lost.has(name))
    .map(({ columns }) => ({
      hostId: columns.get("host_id")?.toString() ?? "",
      queueHex: columns.get("queue_id")?.toString("hex") ?? "",
      from: Number(columns.get("first_sequence")?.readBigInt64BE()),
      through: Number(columns.get("last_sequence")?.readBigInt64BE()),
    }));

/** Returns the law of adoption, if it is broken. `isSingle` reports whether each of a host's queues has one history. */
export const judgeAdoption = async (
  { envelopes }: Pick<Tables, "envelopes">,
  { state: { objects }, lost, hasListedLate }: Pick<Bucket, "state" | "lost" | "hasListedLate">,
  {
    discarded,
    isSingle,
  }: { discarded: readonly StoredEnvelope[]; isSingle(hostId: string): boolean },
): Promise<Breach[]> => {
  const stored = new Set(envelopes.map(({ text }) => text));
  const spoiled = new Set<string>();
  for (const [name, object] of lost)
    for (const { hostId } of (await footerOf(name, object))?.queues ?? []) spoiled.add(hostId);
  const missing = discarded.filter(
    ({ hostId, text }) => !stored.has(text) && isSingle(hostId) && !spoiled.has(hostId),
  );
  if (missing.length === 0 || hasListedLate) return [];
  const kept = new Set<string>();
  for (const [name, object] of objects)
    for (const text of await textsIn(name, object)) kept.add(text);
  const [first, ...others] = new Set(
    missing.filter(({ text }) => kept.has(text)).map(({ text }) => text),
  );
  return first === undefined
    ? []
    : [{ law: objectLaws.adopts, detail: `it lacks ${first}, and ${others.length} others` }];
};

const textsIn = async (name: string, object: Uint8Array): Promise<string[]> => {
  const { queues = [] } = (await footerOf(name, object)) ?? {};
  return queues.flatMap(({ hostId, queueId, blocks }) =>
    blocks.flatMap(({ offset, length, ...block }) => {
      const data = object.subarray(offset, offset + length);
      if (!isOfDigest(data, block.digest, zstdCodec)) return [];
      const envelopes = readStoredBlock(
        { ...block, hostId, queueId, receivedAt: 0n, data },
        zstdCodec,
      );
      return envelopes.map(({ payload }) => Buffer.from(payload).toString());
    }),
  );
};
