/**
 * Judges what a history left in its bucket. Its laws:
 * 1. What a row names is in its object, by its digest.
 * 2. An object that a row names is stored, by its own row: nothing deletes it.
 * 3. Every other object has a row, by which it is collected; unless the database went back and the row with it, or clocks let hours pass
 *    between drawing its name and writing it.
 * 4. An object describes its rows: the database whose it is, hosts, queues, ranges, places and digests.
 */
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { readFooter } from "#functions/store/ingest/object-footer.ts";
import {
  decodeReference,
  type ObjectReference,
  referencedName,
} from "#functions/store/ingest/object-reference.ts";
import { isOfDigest, storedEncodings } from "#functions/store/ingest/stored-envelope.ts";
import type { ObjectBlock } from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import { type Bucket, bucketLineage } from "./bucket.ts";
import type { Breach } from "./oracle.ts";
import type { BlockRow, Tables } from "./tables.ts";

/** The laws by name. */
export const objectLaws = {
  has: "what a row names is in its object",
  isStored: "an object that a row names is stored",
  isKnown: "every object has a row",
  describes: "an object describes its rows",
} as const;

interface Placed {
  columns: BlockRow["columns"];
  reference: ObjectReference;
  name: string;
}

/** Returns the laws that are broken. */
export const judgeObjects = async (
  tables: Tables,
  { state: { objects } }: Pick<Bucket, "state">,
  { hasGoneBack }: { hasGoneBack: boolean },
): Promise<Breach[]> => {
  const placed = tables.blocks.flatMap(({ columns }) => placedOf(columns));
  const named = new Set(placed.map(({ name }) => name));
  const breaches: Breach[] = [];
  const add = (law: string, names: Iterable<string>) => {
    const [first, ...others] = new Set(names);
    if (first) breaches.push({ law, detail: `${first} does not, nor ${others.length} others` });
  };
  const lacking = placed.filter(({ columns, reference, name }) => {
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
  const isKnown = (name: string) => tables.objects.has(name) || tables.forgottenObjects.has(name);
  if (!hasGoneBack)
    add(
      objectLaws.isKnown,
      [...objects.keys()].filter((name) => !isKnown(name)),
    );
  const described = new Map<string, readonly string[]>();
  for (const name of named) described.set(name, await describedBy(name, objects.get(name)));
  const unlisted = placed.filter(({ name, ...row }) => !described.get(name)?.includes(rowOf(row)));
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
  const read = async (_: string, range: { last: number } | { offset: number; length: number }) =>
    (object ?? new Uint8Array()).subarray("last" in range ? -range.last : range.offset);
  const footer = await readFooter({ read }, name).catch(() => undefined);
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
