/**
 * The file of an hour's statement (docs/completeness-proof.md): the entry, lines with their accounts, and a `.tlog-proof`
 * (c2sp.org/tlog-proof) that the entry is in the log.
 */
import { decodeBase64, isSizeText } from "./signed-note.ts";
import { decodeName, encodeName, parseEntry } from "./statement-line.ts";

/** A block of telemetry whose sequences an account states. */
export interface FileBlock {
  firstSequence: bigint;
  lastSequence: bigint;
  /** Bytes of the encoded envelopes before compression. */
  rawBytes: number;
  sha256: Uint8Array;
  /** The SHA-256 is of the data as they are stored, and not of the encoded envelopes. */
  isStored: boolean;
}

/** An account of a host, as it was sent. */
export interface FileAccount {
  body: Uint8Array<ArrayBuffer>;
  signature: Uint8Array<ArrayBuffer>;
  rangeDigest: Uint8Array | null;
  /** Why core refused it; null for an accepted one. */
  refused: string | null;
  /** Empty unless the file was made with blocks. */
  blocks: FileBlock[];
}

/** A line of the statement, with its accounts. */
export interface FileLine {
  /** Its place in the statement's tree. */
  index: number;
  text: string;
  /** Null in a file of all lines, which needs none. */
  proof: Uint8Array[] | null;
  accounts: FileAccount[];
  /** Items of a later version, each with the number of accounts before it. */
  unknown: { after: number; text: string }[];
}

/** A file of a statement. */
export interface StatementFile {
  entry: string;
  /** The host whose lines it has, between their neighbours; null for a file of all lines. */
  only: string | null;
  lines: FileLine[];
  /** DER, of the hosts' keys. */
  certificates: Uint8Array<ArrayBuffer>[];
  /** That the log continues what it was at these sizes. */
  consistency: { size: number; proof: Uint8Array[] }[];
  /** The first entry of the log, which binds the hour of every other, with its proof. */
  first: { entry: string; proof: Uint8Array[] } | null;
  /** The entry's place in the log, and the proof of it. */
  index: number;
  proof: Uint8Array[];
  /** The signed head of the log. */
  note: string;
}

const proofName = "c2sp.org/tlog-proof@v1";
const hashBytes = 32;

const encodeHashes = (hashes: readonly Uint8Array[]) =>
  hashes.map((hash) => ` ${hash.toBase64()}`).join("");

/** Writes the item that names the host of a file. */
export const formatFileOnly = (host: string): string => `only ${encodeName(host)}\n`;

/** Writes a line with its accounts. */
export const formatFileLine = ({
  index,
  text,
  proof,
  accounts,
}: Omit<FileLine, "unknown">): string =>
  [
    `line ${index} ${text}\n`,
    proof === null ? "" : `path${encodeHashes(proof)}\n`,
    ...accounts.map(formatFileAccount),
  ].join("");

const formatFileAccount = ({ body, signature, rangeDigest, refused, blocks }: FileAccount) => {
  // Both may be empty if core refuses the account.
  const [bodyText, signatureText] = [body, signature].map((bytes) => bytes.toBase64() || "-");
  const digest = rangeDigest?.toBase64() ?? "-";
  return [
    `account ${bodyText} ${signatureText} ${digest}${refused === null ? "" : ` ${refused}`}\n`,
    ...blocks.map(
      ({ firstSequence, lastSequence, rawBytes, sha256, isStored }) =>
        `block ${firstSequence} ${lastSequence} ${rawBytes} ${sha256.toBase64()}${isStored ? " stored" : ""}\n`,
    ),
  ].join("");
};

/** Writes the certificate of a host. */
export const formatFileCertificate = (der: Uint8Array): string => `certificate ${der.toBase64()}\n`;

/** Writes the end of a file: the proofs of the first entry, of consistency and of inclusion, and the head of the log. */
export const formatFileEnd = ({
  first,
  consistency,
  index,
  proof,
  note,
}: Pick<StatementFile, "first" | "consistency" | "index" | "proof" | "note">): string =>
  [
    first === null ? "" : `first ${first.entry}${encodeHashes(first.proof)}\n`,
    ...consistency.map(({ size, proof: hashes }) => `consistency ${size}${encodeHashes(hashes)}\n`),
    `\n${proofName}\nindex ${index}\n`,
    ...proof.map((hash) => `${hash.toBase64()}\n`),
    `\n${note}`,
  ].join("");

/** Reports the line at which a text is not a statement file. */
export class StatementFileMalformed extends Error {
  override readonly name = "StatementFileMalformed";
}

/** Reads a file. Throws `StatementFileMalformed`. */
export const parseStatementFile = (text: string): StatementFile => {
  const end = text.indexOf("\n\n");
  const head = text.slice(0, Math.max(end, 0)).split("\n");
  const [entry = "", ...items] = head;
  const fail = (at: number): never => {
    throw new StatementFileMalformed(`line ${at + 1} is no part of a statement`);
  };
  if (end < 0) fail(0);
  const file: FileItems = { only: null, lines: [], certificates: [], consistency: [], first: null };
  const isLater = parseEntry(entry)?.version !== 1;
  for (const [at, item] of items.entries()) if (!addItem(file, item, isLater)) fail(at + 1);
  const rest = text.slice(end + 2);
  const proofEnd = rest.indexOf("\n\n");
  const [name, index = "", ...hashes] = rest.slice(0, Math.max(proofEnd, 0)).split("\n");
  const place = index.startsWith("index ") ? index.slice("index ".length) : "";
  const proof = decodeHashes(hashes);
  if (name !== proofName || !isSizeText(place) || proof === undefined) return fail(head.length);
  return { entry, ...file, index: Number(place), proof, note: rest.slice(proofEnd + 2) };
};

type FileItems = Omit<StatementFile, "entry" | "index" | "proof" | "note">;

const decodeHashes = (texts: readonly string[]): Uint8Array[] | undefined => {
  const hashes = texts.map((text) => decodeBase64(text) ?? new Uint8Array());
  return hashes.every(({ length }) => length === hashBytes) ? hashes : undefined;
};

/** Adds an item to the file; returns false if it belongs nowhere. In a later version, items of a line may have an unknown kind. */
const addItem = (file: FileItems, item: string, isLater: boolean) => {
  const [kind = "", ...fields] = item.split(" ");
  const line = file.lines.at(-1);
  if (Object.hasOwn(readers, kind))
    return readers[kind as keyof typeof readers](file, fields, line);
  if (line === undefined || !isLater || !/^[a-z][a-z_-]*$/.test(kind)) return false;
  line.unknown.push({ after: line.accounts.length, text: item });
  return true;
};

const add = <Item>(list: Item[] | undefined, item: Item | undefined) => {
  if (item !== undefined) list?.push(item);
  return list !== undefined && item !== undefined;
};

/** Each kind of item, by its first word. */
const readers = {
  only: (file: FileItems, [encoded = "", ...others]: string[]) => {
    const host = decodeName(encoded);
    if (host === undefined || others.length > 0 || file.only !== null || file.lines.length > 0)
      return false;
    file.only = host;
    return true;
  },
  line: (file: FileItems, [index = "", ...words]: string[]) =>
    isSizeText(index) &&
    add(file.lines, {
      index: Number(index),
      text: words.join(" "),
      proof: null,
      accounts: [],
      unknown: [],
    }),
  path: (_: FileItems, fields: string[], line: FileLine | undefined) => {
    const proof = decodeHashes(fields);
    if (line === undefined || proof === undefined || line.proof !== null) return false;
    line.proof = proof;
    return true;
  },
  account: (_: FileItems, fields: string[], line: FileLine | undefined) =>
    add(line?.accounts, readAccount(fields)),
  block: (_: FileItems, fields: string[], line: FileLine | undefined) =>
    add(line?.accounts.at(-1)?.blocks, readBlock(fields)),
  certificate: (file: FileItems, fields: string[]) =>
    add(file.certificates, decodeBase64(fields.join(" "))),
  consistency: (file: FileItems, [size = "", ...hashes]: string[]) => {
    const proof = decodeHashes(hashes);
    return isSizeText(size) && add(file.consistency, proof && { size: Number(size), proof });
  },
  first: (file: FileItems, fields: string[]) => {
    const proof = decodeHashes(fields.slice(entryWords));
    if (proof === undefined || file.first !== null) return false;
    file.first = { entry: fields.slice(0, entryWords).join(" "), proof };
    return true;
  },
};
const entryWords = 4;

const readAccount = (fields: readonly string[]): FileAccount | undefined => {
  const [bodyText = "", signatureText = "", digestText = "", refused, ...others] = fields;
  const [body, signature] = [bodyText, signatureText].map((text) =>
    decodeBase64(text === "-" ? "" : text),
  );
  const [rangeDigest] = digestText === "-" ? [null] : (decodeHashes([digestText]) ?? []);
  if (!body || !signature || rangeDigest === undefined || others.length > 0) return undefined;
  return { body, signature, rangeDigest, refused: refused ?? null, blocks: [] };
};

const readBlock = (fields: string[]): FileBlock | undefined => {
  const [first = "", last = "", size = "", encoded = "", kind, ...others] = fields;
  const [sha256] = decodeHashes([encoded]) ?? [];
  const isKnown = (kind === undefined || kind === "stored") && others.length === 0;
  const isRange = [first, last].every((text) => /^(0|[1-9]\d{0,18})$/.test(text));
  if (!isKnown || !isRange || !isSizeText(size) || !sha256) return undefined;
  const firstSequence = BigInt(first);
  const lastSequence = BigInt(last);
  return {
    firstSequence,
    lastSequence,
    rawBytes: Number(size),
    sha256,
    isStored: kind === "stored",
  };
};
