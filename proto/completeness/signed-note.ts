/** Signed notes (c2sp.org/signed-note) with Ed25519, and the checkpoints of a log (c2sp.org/tlog-checkpoint) in them. */
import { equalBytes, sha256 } from "#kit/bytes.ts";
import type { TreeHead } from "./merkle.ts";

/** A public key that signs notes under a name. */
export interface NoteKey {
  name: string;
  /** Four bytes: the key id of the specification. */
  id: Uint8Array;
  /** 32 bytes, as RFC 8032 encodes it. */
  publicKey: Uint8Array<ArrayBuffer>;
}

const ed25519 = 1;
const idBytes = 4;
const keyBytes = 32;
/** Not empty, without Unicode spaces, control characters and `+`. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the specification excludes them
const namePattern = /^[^\s\u0000-\u001f\u0085+]+$/u;
const noteCharactersMax = 1_000_000;
const signaturesMax = 100;

/** Reports whether a name can be that of a key, and so the origin of a log. */
export const isNoteKeyName = (name: string): boolean => namePattern.test(name);

/** Returns the key of a name and a public key. */
export const noteKeyOf = async (name: string, publicKey: Uint8Array): Promise<NoteKey> => {
  const named = new TextEncoder().encode(`${name}\n`);
  const hash = await sha256(Uint8Array.from([...named, ed25519, ...publicKey]));
  return { name, id: hash.slice(0, idBytes), publicKey: Uint8Array.from(publicKey) };
};

/** Returns a key as text: `name+id+base64`, the form that tools of transparency logs read. */
export const formatNoteKey = ({ name, id, publicKey }: NoteKey): string =>
  `${name}+${id.toHex()}+${Uint8Array.from([ed25519, ...publicKey]).toBase64()}`;

/** Reads what `formatNoteKey` writes; undefined for anything else. */
export const parseNoteKey = async (text: string): Promise<NoteKey | undefined> => {
  const [name, id, encoded] = splitKey(text);
  const bytes = decodeBase64(encoded);
  if (!isNoteKeyName(name) || bytes?.length !== 1 + keyBytes || bytes[0] !== ed25519)
    return undefined;
  const key = await noteKeyOf(name, bytes.subarray(1));
  return key.id.toHex() === id ? key : undefined;
};

const splitKey = (text: string): [name: string, id: string, encoded: string] => {
  const [name = "", id = "", ...encoded] = text.split("+");
  // Base64 may have a plus itself.
  return [name, id, encoded.join("+")];
};

/** Signs text that ends in a line feed. */
export const signNote = async (
  text: string,
  key: Pick<NoteKey, "name" | "id">,
  sign: (bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>,
): Promise<string> => {
  const signature = await sign(new TextEncoder().encode(text));
  return `${text}\n— ${key.name} ${Uint8Array.from([...key.id, ...signature]).toBase64()}\n`;
};

/** A note that at least one known key has signed. */
interface OpenedNote {
  text: string;
  /** The known keys whose signatures are good. */
  keys: readonly NoteKey[];
}

/**
 * Returns the text of a note; undefined if it is malformed, has no signature by one of the keys, or a wrong one. Ignores signatures by
 * unknown keys, such as those of witnesses.
 */
export const openNote = async (
  note: string,
  known: readonly NoteKey[],
): Promise<OpenedNote | undefined> => {
  const end = note.lastIndexOf("\n\n");
  if (note.length > noteCharactersMax || end < 0 || !note.endsWith("\n")) return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the specification excludes them
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note)) return undefined;
  const text = note.slice(0, end + 1);
  const lines = note.slice(end + 2, -1).split("\n");
  if (lines.length > signaturesMax) return undefined;
  const data = new TextEncoder().encode(text);
  const keys: NoteKey[] = [];
  for (const line of lines) {
    const read = parseSignature(line);
    if (read === undefined) return undefined;
    const key = known.find(({ name, id }) => name === read.name && equalBytes(id, read.id));
    if (key === undefined) continue;
    if (!(await isSignedBy(key, read.signature, data))) return undefined;
    keys.push(key);
  }
  return keys.length === 0 ? undefined : { text, keys };
};

const parseSignature = (line: string) => {
  const [dash, name = "", encoded = "", ...others] = line.split(" ");
  const bytes = decodeBase64(encoded);
  if (
    dash !== "—" ||
    others.length > 0 ||
    !isNoteKeyName(name) ||
    bytes === undefined ||
    bytes.length <= idBytes
  )
    return undefined;
  return { name, id: bytes.slice(0, idBytes), signature: bytes.slice(idBytes) };
};

const isSignedBy = async (
  { publicKey }: NoteKey,
  signature: Uint8Array<ArrayBuffer>,
  data: Uint8Array<ArrayBuffer>,
) => {
  try {
    const key = await crypto.subtle.importKey("raw", publicKey, "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, signature, data);
  } catch {
    return false;
  }
};

/** Returns the bytes of canonical base64, with padding; undefined for any other text, so that no two texts are one value. */
export const decodeBase64 = (text: string): Uint8Array<ArrayBuffer> | undefined => {
  try {
    const bytes = Uint8Array.fromBase64(text, { lastChunkHandling: "strict" });
    return bytes.toBase64() === text ? bytes : undefined;
  } catch {
    return undefined;
  }
};

/** The head of a log: which log, and its tree. */
export interface LogCheckpoint extends TreeHead {
  origin: string;
}

const rootBytes = 32;

/** Returns the text of a checkpoint, to be signed as a note. */
export const formatCheckpoint = ({ origin, size, root }: LogCheckpoint): string =>
  `${origin}\n${size}\n${root.toBase64()}\n`;

/** Reads the text of a checkpoint; undefined for anything else. Ignores extension lines. */
export const parseCheckpoint = (text: string): LogCheckpoint | undefined => {
  const [origin = "", size = "", encoded = "", ...rest] = text.split("\n");
  const root = decodeBase64(encoded);
  const isWhole = rest.at(-1) === "" && rest.slice(0, -1).every((line) => line !== "");
  if (origin === "" || !isSizeText(size) || root?.length !== rootBytes || !isWhole)
    return undefined;
  return { origin, size: Number(size), root };
};

/** Reports whether text is a number as logs write it: decimal, without leading zeroes, at most 2^53 - 1. */
export const isSizeText = (text: string): boolean =>
  /^(0|[1-9]\d{0,15})$/.test(text) && Number.isSafeInteger(Number(text));
