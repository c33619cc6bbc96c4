/*
 * The journal export format (https://systemd.io/JOURNAL_EXPORT_FORMATS), read as it arrives. Memory is bounded on any input: long values are
 * cut, and a length that cannot be true ends its entry.
 */

/** One entry of a journal. */
export interface JournalEntry {
  /** The values by name; where a name occurs twice, the first one. */
  readonly fields: Map<string, Buffer>;
  /** How many values are shorter than they were, or left out. */
  cut: number;
  /** Whether its end could not be read. */
  isMalformed: boolean;
}

/** Returns the text of a field, without NULs, which no attribute has. */
export const fieldText = ({ fields }: JournalEntry, name: string): string | undefined =>
  fields.get(name)?.toString().replaceAll("\0", "\ufffd");

/** The most bytes of a `MESSAGE`. */
export const journalMessageBytesMax = 1024 * 1024;
/** The most bytes of any other value. */
export const journalFieldBytesMax = 8 * 1024;
const fieldsMax = 128;
const nameBytesMax = 256;
/** journald takes 768 MiB; what claims more than this is more likely damaged. */
const claimedBytesMax = 64 * 1024 * 1024;
const lengthBytes = 8;
const lineEnd = 0x0a;
const equals = 0x3d;
const entryStart = "__CURSOR=";

/** Returns a function that takes the next bytes of a stream, and calls `onEntry` for each entry that they complete. */
export const createExportParser = (onEntry: (entry: JournalEntry) => void) => {
  const input = createInput();
  const parsing = parseEntries(input, onEntry);
  parsing.next();
  return (chunk: Buffer): void => {
    input.offer(chunk);
    parsing.next();
  };
};

/** A part of a parser: it yields until there are more bytes. */
type Parsing<Result> = Generator<void, Result, void>;

function* parseEntries(input: Input, onEntry: (entry: JournalEntry) => void): Parsing<never> {
  for (let first = yield* input.line(); ; ) {
    const entry: JournalEntry = { fields: new Map(), cut: 0, isMalformed: false };
    for (let line = first; line.length > 0; line = input.wholeLine() ?? (yield* input.line())) {
      const nameEnd = line.indexOf(equals);
      if (nameEnd !== -1)
        keep(entry, line.toString("latin1", 0, nameEnd), line.subarray(nameEnd + 1), input.isCut());
      else entry.isMalformed = !(yield* readSized(input, entry, line));
      if (entry.isMalformed) break;
    }
    if (entry.fields.size > 0) onEntry(entry);
    first = entry.isMalformed ? yield* findEntry(input) : yield* input.line();
  }
}

/** Reads a value that follows its name and its length; false if there is none. */
function* readSized(input: Input, entry: JournalEntry, name: Buffer): Parsing<boolean> {
  if (name.length > nameBytesMax) return false;
  const length = (yield* input.take(lengthBytes)).readBigUInt64LE();
  if (length > claimedBytesMax) return false;
  const value = yield* input.take(Number(length));
  const isCut = input.isCut();
  const end = yield* input.take(1);
  keep(entry, name.toString("latin1"), value, isCut);
  return end[0] === lineEnd;
}

/** Adds a field. Copies what it cuts, so that the rest does not stay in memory. */
const keep = (entry: JournalEntry, name: string, value: Buffer, isCut: boolean) => {
  const { fields } = entry;
  const bytesMax = name === "MESSAGE" ? journalMessageBytesMax : journalFieldBytesMax;
  const isLong = value.length > bytesMax;
  const isFull = fields.size >= fieldsMax;
  if (isCut || isLong || isFull) entry.cut += 1;
  if (!isFull && !fields.has(name))
    fields.set(name, isLong ? Buffer.from(value.subarray(0, bytesMax)) : value);
};

/** Returns the first line of the next entry. */
function* findEntry(input: Input): Parsing<Buffer> {
  for (let isAfterEnd = false; ; ) {
    const line = yield* input.line();
    if (isAfterEnd && line.toString("latin1", 0, entryStart.length) === entryStart) return line;
    isAfterEnd = line.length === 0;
  }
}

/** The bytes of a stream. */
interface Input {
  /** Adds bytes; the ones before are read. */
  offer(chunk: Buffer): void;
  /** Reads a line without its end; undefined if its end has not arrived. */
  wholeLine(): Buffer | undefined;
  /** Reads a line without its end. */
  line(): Parsing<Buffer>;
  /** Reads so many bytes. */
  take(count: number): Parsing<Buffer>;
  /** Reports whether more was read last than is kept. */
  isCut(): boolean;
}

const keptBytesMax = journalMessageBytesMax + nameBytesMax;

const createInput = (): Input => {
  let chunk: Buffer = Buffer.alloc(0);
  let at = 0;
  let isCut = false;

  const wholeLine = () => {
    const end = chunk.indexOf(lineEnd, at);
    if (end === -1) return undefined;
    const line = chunk.subarray(at, end);
    at = end + 1;
    isCut = false;
    return line;
  };

  /** Reads what is in several chunks; `next` returns the next part, and whether it is the last. */
  function* join(next: () => { part: Buffer; isLast: boolean }, isEmpty = false): Parsing<Buffer> {
    const parts: Buffer[] = [];
    let room = keptBytesMax;
    for (let isEnd = isEmpty; !isEnd; ) {
      while (at === chunk.length) yield;
      const { part, isLast } = next();
      if (room > 0) parts.push(part.subarray(0, room));
      room -= part.length;
      isEnd = isLast;
    }
    isCut = room < 0;
    const [first = chunk.subarray(0, 0)] = parts;
    return parts.length > 1 ? Buffer.concat(parts) : first;
  }

  const rest = () => {
    const part = chunk.subarray(at);
    at = chunk.length;
    return part;
  };

  return {
    offer: (next) => {
      chunk = next;
      at = 0;
    },
    wholeLine,
    line: () =>
      join(() => {
        const line = wholeLine();
        return { part: line ?? rest(), isLast: line !== undefined };
      }),
    take: (count) => {
      let left = count;
      return join(() => {
        const part = chunk.subarray(at, at + left);
        at += part.length;
        left -= part.length;
        return { part, isLast: left === 0 };
      }, count === 0);
    },
    isCut: () => isCut,
  };
};
