/**
 * A table of hosts as bytes: its columns one after the other, then a line for each host with its id and identity. A table that begins with
 * the hosts of another is written as the difference from it, which is zero but for the hosts that have changed; its lines are those of the
 * further hosts.
 */
import type { BlockCodec } from "../../ingest/block-codec.ts";
import { HostIndex } from "../columns/host-index.ts";
import type { NameColumn } from "../columns/packed-rows.ts";
import { createValues, HostTable } from "../columns/resident-hosts.ts";

/** A table as it is stored. */
interface CheckpointBody {
  hosts: number;
  /** By the names of the columns: one that was written with other columns is of no use. */
  names: Readonly<Partial<Record<NameColumn, readonly string[]>>>;
  rawBytes: number;
  body: Uint8Array;
}

/** Returns a table as it is stored: with a base, whose hosts it must begin with, as the difference. */
export const encodeCheckpoint = (
  table: HostTable,
  codec: Pick<BlockCodec, "compress">,
  base?: HostTable,
): CheckpointBody => {
  const columns = columnsOf(table);
  const known = base?.count ?? 0;
  const lines = table.ids.slice(known, table.count).map((id, at) => `${id}${table.index.identities[known + at]}\n`);
  const text = new TextEncoder().encode(lines.join(""));
  const raw = new Uint8Array(columns.reduce((sum, { length }) => sum + length, 0) + text.length);
  const before = base && columnsOf(base);
  let at = 0;
  for (const [nth, column] of columns.entries()) {
    const part = raw.subarray(at, at + column.length);
    part.set(column);
    if (before) subtractBytes(part, before[nth] as Uint8Array);
    at += column.length;
  }
  raw.set(text, at);
  return { hosts: table.count, names: table.allNames(), rawBytes: raw.length, body: codec.compress(raw) };
};

/** The hosts of checkpoints that were read, with the bytes of their lines. Later ones extend it: most begin with the same hosts. */
export interface KnownHosts {
  index: HostIndex;
  lines: Uint8Array;
}

/** Returns the table of stored bytes, which are its columns, and the hosts of a whole one. */
export const decodeCheckpoint = (
  { hosts, names, rawBytes, body }: CheckpointBody,
  codec: Pick<BlockCodec, "decompress">,
  { base, known }: { base?: HostTable | undefined; known?: KnownHosts | undefined },
): { table: HostTable; known: KnownHosts | undefined; bytes: Uint8Array } => {
  const raw = codec.decompress(body, rawBytes);
  if (raw === null) throw new Error("a checkpoint of the fleet cannot be read");
  const { buffer, byteOffset } = aligned(raw);
  let at = byteOffset;
  const take = (bytes: number): number => {
    at += bytes;
    return at - bytes;
  };
  const values = createValues(
    () => new Float64Array(buffer, take(8 * hosts), hosts),
    () => new BigInt64Array(buffer, take(8 * hosts), hosts),
    () => new Uint8Array(buffer, take(hosts), hosts),
  );
  const lines = new Uint8Array(buffer, at, byteOffset + rawBytes - at);
  if (base === undefined) {
    const own = extendHosts(known, lines);
    return { table: new HostTable(own.index, values, names, hosts), known: own, bytes: raw };
  }
  const index =
    lines.length > 0 ? base.index.pick(Uint32Array.from({ length: base.count }, (_, place) => place)) : base.index;
  addLines(index, lines);
  const table = new HostTable(index, values, names, hosts);
  const before = columnsOf(base);
  for (const [nth, column] of columnsOf(table).entries()) subtractBytes(column, before[nth] as Uint8Array);
  return { table, known, bytes: raw };
};

/** Columns of eight bytes come first, so that all are aligned if the first one is. */
const aligned = (raw: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> =>
  raw.byteOffset % 8 === 0 ? raw : raw.slice();

/** Returns an index that begins with the hosts of lines: the known one, with further hosts if there are some, or else another. */
const extendHosts = (known: KnownHosts | undefined, lines: Uint8Array): KnownHosts => {
  const shared = known && Math.min(known.lines.length, lines.length);
  if (known && shared !== undefined && areEqual(known.lines, lines, shared)) {
    if (lines.length <= known.lines.length) return known;
    addLines(known.index, lines.subarray(shared));
    return { index: known.index, lines: lines.slice() };
  }
  const index = new HostIndex();
  addLines(index, lines);
  return { index, lines: lines.slice() };
};

const idLength = 36;

const addLines = (index: HostIndex, lines: Uint8Array): void => {
  if (lines.length === 0) return;
  const text = new TextDecoder().decode(lines.subarray(0, -1));
  for (const line of text.split("\n")) index.add(line.slice(0, idLength), line.slice(idLength));
};

/** The bytes of each column, in their order. */
const columnsOf = (table: HostTable): Uint8Array[] => {
  const { numbers, keys, flags } = table.values();
  return [...numbers.values(), ...keys.values(), ...flags.values()].map(
    ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength),
  );
};

/** Subtracts bytes bit by bit, which is its own inverse; what the other lacks stays. */
const subtractBytes = (bytes: Uint8Array, other: Uint8Array): void => {
  const length = Math.min(bytes.length, other.length);
  const [own, others, from] = wordsOf(bytes, other, length);
  for (let at = 0; at < own.length; at++) own[at] = (own[at] as number) ^ (others[at] as number);
  for (let at = from; at < length; at++) bytes[at] = (bytes[at] as number) ^ (other[at] as number);
};

const areEqual = (one: Uint8Array, other: Uint8Array, length: number): boolean => {
  const [own, others, from] = wordsOf(one, other, length);
  for (let at = 0; at < own.length; at++) if (own[at] !== others[at]) return false;
  for (let at = from; at < length; at++) if (one[at] !== other[at]) return false;
  return true;
};

/** Returns the first bytes of two arrays four by four where both are aligned, and from where on they are left. */
const wordsOf = (one: Uint8Array, other: Uint8Array, length: number): [Uint32Array, Uint32Array, number] => {
  const words = one.byteOffset % 4 === 0 && other.byteOffset % 4 === 0 ? length >> 2 : 0;
  const [own, others] = [one, other].map(({ buffer, byteOffset }) =>
    words > 0 ? new Uint32Array(buffer, byteOffset, words) : new Uint32Array(),
  ) as [Uint32Array, Uint32Array];
  return [own, others, words * 4];
};
