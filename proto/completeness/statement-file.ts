/**
 * The file of an hour's statement (docs/completeness-proof.md): the entry, lines with their accounts, and a `.tlog-proof`
 * (c2sp.org/tlog-proof) that the entry is in the log.
 */
import { decodeBase64, isSizeText } from "./signed-note.ts";

/** A block of telemetry whose sequences an account states. */
export interface FileBlock {
  firstSequence: bigint;
  lastSequence: bigint;
  /** Bytes of the encoded envelopes before compression. */
  rawBytes: number;
  /** Their SHA-256. */
  digest: Uint8Array;
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

/** A line of the statement, with what it is made of. */
export interface FileLine {
  /** Its place in the statement's tree. */
  index: number;
  text: string;
  /** Null where the file has all lines, which need none. */
  proof: Uint8Array[] | null;
  accounts: FileAccount[];
}

/** A file of a statement. */
export interface StatementFile {
  entry: string;
  lines: FileLine[];
  /** DER, of the hosts' keys. */
  certificates: Uint8Array<ArrayBuffer>[];
  /** That the log continues what it was at these sizes. */
  consistency: { size: number; proof: Uint8Array[] }[];
  /** The entry's place in the log, and the proof of it. */
  index: number;
  proof: Uint8Array[];
  /** The signed head of the log. */
  note: string;
}

const proofName = "c2sp.org/tlog-proof@v1";
const hashBytes = 32;

const encodeHashes = (hashes: readonly Uint8Array[]): string => hashes.map((hash) => ` ${hash.toBase64()}`).join("");

/** Writes a line with its accounts. */
export const formatFileLine = ({ index, text, proof, accounts }: FileLine): string =>
  [
    `line ${index} ${text}\n`,
    proof === null ? "" : `path${encodeHashes(proof)}\n`,
    ...accounts.map(formatFileAccount),
  ].join("");

const formatFileAccount = ({ body, signature, rangeDigest, refused, blocks }: FileAccount): string => {
  // Of one that core refuses, both may be empty.
  const [bodyText, signatureText] = [body, signature].map((bytes) => bytes.toBase64() || "-");
  const digest = rangeDigest?.toBase64() ?? "-";
  return [
    `account ${bodyText} ${signatureText} ${digest}${refused === null ? "" : ` ${refused}`}\n`,
    ...blocks.map(
      (block) => `block ${block.firstSequence} ${block.lastSequence} ${block.rawBytes} ${block.digest.toBase64()}\n`,
    ),
  ].join("");
};

/** Writes the certificate of a host. */
export const formatFileCertificate = (der: Uint8Array): string => `certificate ${der.toBase64()}\n`;

/** Writes what follows the lines: proofs of consistency and the proof of inclusion with the head of the log. */
export const formatFileEnd = ({
  consistency,
  index,
  proof,
  note,
}: Pick<StatementFile, "consistency" | "index" | "proof" | "note">): string =>
  [
    ...consistency.map(({ size, proof: hashes }) => `consistency ${size}${encodeHashes(hashes)}\n`),
    `\n${proofName}\nindex ${index}\n`,
    ...proof.map((hash) => `${hash.toBase64()}\n`),
    `\n${note}`,
  ].join("");

/** The text is no file of a statement, at this line. */
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
  const file: Omit<StatementFile, "index" | "proof" | "note"> = { entry, lines: [], certificates: [], consistency: [] };
  for (const [at, item] of items.entries()) if (!addItem(file, item)) fail(at + 1);
  const rest = text.slice(end + 2);
  const proofEnd = rest.indexOf("\n\n");
  const [name, index = "", ...hashes] = rest.slice(0, Math.max(proofEnd, 0)).split("\n");
  const place = index.startsWith("index ") ? index.slice("index ".length) : "";
  const proof = decodeHashes(hashes);
  if (name !== proofName || !isSizeText(place) || proof === undefined) return fail(head.length);
  return { ...file, index: Number(place), proof, note: rest.slice(proofEnd + 2) };
};

const decodeHashes = (texts: readonly string[]): Uint8Array[] | undefined => {
  const hashes = texts.map((text) => decodeBase64(text) ?? new Uint8Array());
  return hashes.every(({ length }) => length === hashBytes) ? hashes : undefined;
};

const addItem = (file: Pick<StatementFile, "lines" | "certificates" | "consistency">, item: string): boolean => {
  const [kind, ...fields] = item.split(" ");
  const line = file.lines.at(-1);
  switch (kind) {
    case "line": {
      const [index = "", ...words] = fields;
      if (!isSizeText(index)) return false;
      file.lines.push({ index: Number(index), text: words.join(" "), proof: null, accounts: [] });
      return true;
    }
    case "path": {
      const proof = decodeHashes(fields);
      if (line === undefined || proof === undefined || line.proof !== null) return false;
      line.proof = proof;
      return true;
    }
    case "account": {
      const account = readAccount(fields);
      if (account) line?.accounts.push(account);
      return line !== undefined && account !== undefined;
    }
    case "block": {
      const block = readBlock(fields);
      const account = line?.accounts.at(-1);
      if (block) account?.blocks.push(block);
      return account !== undefined && block !== undefined;
    }
    case "certificate": {
      const der = decodeBase64(fields.join(" "));
      if (der) file.certificates.push(der);
      return der !== undefined;
    }
    case "consistency": {
      const [size = "", ...hashes] = fields;
      const proof = decodeHashes(hashes);
      if (!isSizeText(size) || proof === undefined) return false;
      file.consistency.push({ size: Number(size), proof });
      return true;
    }
    default:
      return false;
  }
};

const readAccount = (fields: readonly string[]): FileAccount | undefined => {
  const [bodyText = "", signatureText = "", digestText = "", refused, ...others] = fields;
  const [body, signature] = [bodyText, signatureText].map((text) => decodeBase64(text === "-" ? "" : text));
  const [rangeDigest] = digestText === "-" ? [null] : (decodeHashes([digestText]) ?? []);
  if (!body || !signature || rangeDigest === undefined || others.length > 0) return undefined;
  return { body, signature, rangeDigest, refused: refused ?? null, blocks: [] };
};

const readBlock = ([first = "", last = "", size = "", encoded = "", ...others]: string[]): FileBlock | undefined => {
  const [digest] = decodeHashes([encoded]) ?? [];
  if (![first, last].every((text) => /^\d{1,19}$/.test(text)) || !isSizeText(size) || !digest || others.length > 0)
    return undefined;
  return { firstSequence: BigInt(first), lastSequence: BigInt(last), rawBytes: Number(size), digest };
};
