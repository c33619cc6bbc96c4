/** Verifies the file of a statement (docs/completeness-proof.md) without core, and reports every fault. */
import { equalBytes } from "#kit/bytes.ts";
import { hourMs } from "#kit/clock.ts";
import type { AccountBody } from "../gen/svc/ingest/v1/ingest_pb.js";
import type { RuleCounts } from "./account.ts";
import { hourStates } from "./hour-state.ts";
import { isConsistent, isIncluded, leafHash, merkleRoot, type Sha256 } from "./merkle.ts";
import { type LogCheckpoint, type NoteKey, openNote, parseCheckpoint } from "./signed-note.ts";
import type { FileAccount, FileBlock, FileLine, StatementFile } from "./statement-file.ts";
import {
  compareLines,
  type LogEntry,
  parseEntry,
  parseLine,
  type ReadLine,
  type StatementLine,
} from "./statement-line.ts";
import { createAccountCheck } from "./verify-account.ts";

/**
 * What does not verify. `log_signature`: no trusted key has signed the head of the log; `log_entry`: the entry is not in that log; `hour`: its
 * place there is not that of its hour, or nothing says so; `consistency`: the log does not continue what a witness kept; `lines`: they are not
 * those of the entry, or one of a host is missing; `line`: this one is not; `accounts`: a line was made of other accounts; `account_host`,
 * `account_signature`, `account_chain`, `account_blocks`: an account is another host's, was not signed by its host, does not follow the one
 * before, or states other blocks; `counts`, `state`: a line contradicts its accounts; `block`: a block is not the one that was stored.
 */
export type StatementFaultKind =
  | "log_signature"
  | "log_entry"
  | "hour"
  | "consistency"
  | "lines"
  | "line"
  | "accounts"
  | "account_host"
  | "account_signature"
  | "account_chain"
  | "account_blocks"
  | "counts"
  | "state"
  | "block";

/** A fault, and the host, account and block that it concerns. */
export interface StatementFault {
  kind: StatementFaultKind;
  detail: string;
  host?: string;
  /** The queue in hex and the number of the account in it. */
  account?: string;
  /** The first and the last sequence. */
  block?: string;
}

/** A part of a later version, which is signed but which this version cannot check. */
interface StatementNotice {
  kind: "state" | "field" | "item";
  name: string;
  host: string;
}

/** The outcome of a check; `unknown` if something that it needs is missing. */
type CheckOutcome = "good" | "bad" | "unknown";

/** The inputs of a verification besides the file. */
export interface StatementChecks {
  sha256: Sha256;
  logKeys: readonly NoteKey[];
  /** A signed head that a witness kept; null to check none. */
  witness: string | null;
  /** Accepts a statement of version 1 without the first entry of its log, as cores up to 0.3.0 wrote them. */
  isHourUnbound: boolean;
  /** Reports whether the host has signed an account. */
  verifyAccount(host: string, account: FileAccount, body: AccountBody): Promise<CheckOutcome>;
  /** Returns the bytes that the digest of a block covers; null if it is missing, undefined if it is unreadable. Without it, no block is checked. */
  readBlock?(queueId: Uint8Array, block: FileBlock): Uint8Array | null | undefined;
}

/** The result of a verification. */
export interface StatementVerification {
  entry: LogEntry | null;
  head: LogCheckpoint | null;
  /** The names of the keys that signed the head. */
  signedBy: string[];
  /** Whether the log continues what the witness kept; null without one. */
  continuesWitness: boolean | null;
  lines: { checked: number; isWhole: boolean };
  accounts: { checked: number; signed: number; unknownKey: number; refused: number };
  blocks: { checked: number; absent: number };
  /** What the accounts in the file say of each rule: the first of all hosts. */
  rules: ({ host: string; rule: string } & RuleCounts)[];
  faults: StatementFault[];
  notices: StatementNotice[];
}

/** The most faults, and the most notices, of a result. */
const listMax = 100;

/** Verifies a file. */
export const verifyStatement = async (
  file: StatementFile,
  checks: StatementChecks,
): Promise<StatementVerification> => {
  const result: StatementVerification = {
    entry: parseEntry(file.entry) ?? null,
    head: null,
    signedBy: [],
    continuesWitness: null,
    lines: { checked: 0, isWhole: false },
    accounts: { checked: 0, signed: 0, unknownKey: 0, refused: 0 },
    blocks: { checked: 0, absent: 0 },
    rules: [],
    faults: [],
    notices: [],
  };
  const fault = (kind: StatementFaultKind, detail: string, place: Partial<StatementFault> = {}) => {
    if (result.faults.length < listMax) result.faults.push({ kind, detail, ...place });
  };
  await verifyHead({ file, checks, result, fault });
  const { entry } = result;
  if (entry === null) {
    fault("log_entry", "the entry is malformed");
    return result;
  }
  const verifying: Verifying = { file, checks, entry, result, fault };
  verifyHour(verifying);
  const lines = readLines(verifying);
  for (const { line, of } of lines) result.notices.push(...noticesOf(line, of));
  result.notices.splice(listMax);
  verifyLines(verifying);
  if (!result.lines.isWhole && file.only !== null) verifyNeighbours(file.only, lines, verifying);
  else if (!result.lines.isWhole && entry.version > 1)
    fault("lines", "the file has neither all lines nor those of one host");
  const checkAccounts = createAccountCheck(verifying);
  for (const { line, of } of lines) await checkAccounts(line, of);
  result.rules.splice(listMax);
  return result;
};

const noticesOf = ({ host, state, unknown }: ReadLine, of: FileLine): StatementNotice[] => [
  ...(hourStates.some((name) => name === state)
    ? []
    : [{ kind: "state", name: state, host } as const]),
  ...unknown.map((name) => ({ kind: "field", name, host }) as const),
  ...of.unknown.map(
    ({ text }) => ({ kind: "item", name: text.split(" ")[0] ?? "", host }) as const,
  ),
];

/** Reports a fault. */
export type ReportFault = (
  kind: StatementFaultKind,
  detail: string,
  place?: Partial<StatementFault>,
) => void;

/** A file that is being verified. */
export interface Verifying {
  file: StatementFile;
  checks: StatementChecks;
  entry: LogEntry;
  result: StatementVerification;
  fault: ReportFault;
}

const verifyHead = async ({ file, checks, result, fault }: Omit<Verifying, "entry">) => {
  const { entry, index, proof, note, consistency } = file;
  const { sha256, logKeys, witness } = checks;
  const opened = await openNote(note, logKeys);
  const head = parseCheckpoint(opened?.text ?? note.slice(0, note.lastIndexOf("\n\n") + 1));
  if (opened === undefined) fault("log_signature", "no trusted key has signed the head of the log");
  if (head === undefined) return fault("log_signature", "the head of the log is malformed");
  result.head = head;
  result.signedBy = opened?.keys.map(({ name }) => name) ?? [];
  if (opened !== undefined && !result.signedBy.includes(head.origin))
    fault("log_signature", `the key of ${head.origin} has not signed the head of its log`);
  if (!isIncluded(sha256, head, { index, text: entry, proof }))
    fault("log_entry", `the entry is not number ${index} of the log of ${head.size} entries`);
  if (witness === null) return;
  const kept = await openNote(witness, logKeys);
  const before = kept && parseCheckpoint(kept.text);
  const found = before && consistency.find(({ size }) => size === before.size);
  const isSame = before?.size === head.size;
  result.continuesWitness =
    before !== undefined &&
    before.origin === head.origin &&
    isConsistent(sha256, { before, after: head }, found?.proof ?? []);
  if (before === undefined) fault("consistency", "no trusted key has signed what the witness kept");
  else if (found === undefined && !isSame)
    fault(
      "consistency",
      `the file has no proof that the log continues its first ${before.size} entries`,
    );
  else if (!result.continuesWitness)
    fault(
      "consistency",
      `the log is not a continuation of what the witness kept at ${before.size} entries`,
    );
};

/** Checks that the index of an entry is that of its hour: hours have no gap, so the log cannot have two entries of one hour. */
const verifyHour = ({ file, checks, entry, result: { head }, fault }: Verifying) => {
  const { index, first } = file;
  const { sha256, isHourUnbound } = checks;
  const { version, hourStartMs } = entry;
  const { entry: text, proof } = first ?? file;
  if (first === null && index > 0) {
    if (version > 1 || !isHourUnbound)
      fault("hour", "the hour is not bound: the file lacks the first entry of the log");
    return;
  }
  if (head === null || !isIncluded(sha256, head, { index: 0, text, proof })) {
    fault("hour", "the first entry is not that of the log");
    return;
  }
  const firstMs = parseEntry(text)?.hourStartMs;
  if (firstMs === undefined || firstMs + index * hourMs !== hourStartMs)
    fault("hour", `entry ${index} of the log is that of another hour`);
};

/** Reads the lines, and reports a fault unless they are in order. */
const readLines = ({ file: { lines }, entry, fault }: Verifying) => {
  const read: { line: ReadLine; of: FileLine }[] = [];
  let before: StatementLine | undefined;
  for (const [at, of] of lines.entries()) {
    const line = parseLine(of.text, entry);
    const host = of.text.split(" ")[0] ?? "";
    if (line === undefined) fault("line", `line ${of.index} is malformed`, { host });
    else {
      const isLater = line.correctedMs === null || line.correctedMs < entry.hourStartMs;
      const isAfter = before === undefined || compareLines(before, line) < 0;
      const follows = at === 0 || (lines[at - 1]?.index ?? 0) < of.index;
      if (!isLater || !isAfter || !follows)
        fault("line", `line ${of.index} is not in its place`, { host: line.host });
      read.push({ line, of });
      before = line;
    }
  }
  return read;
};

/**
 * Checks that a file of some lines has all lines of its host: among the own lines, and among the corrections, it must have the host's, the one
 * before and the one after, without a gap.
 */
const verifyNeighbours = (
  host: string,
  lines: readonly { line: ReadLine; of: FileLine }[],
  { entry, fault }: Verifying,
) => {
  for (const [fromMs, toMs] of [
    [null, null],
    [0, Number.POSITIVE_INFINITY],
  ] as const) {
    const before = lines.findLast(
      ({ line }) => compareLines(line, { host, correctedMs: fromMs }) < 0,
    );
    const after = lines.find(({ line }) => compareLines(line, { host, correctedMs: toMs }) > 0);
    const from = before?.of.index ?? -1;
    const to = after?.of.index ?? entry.lines;
    const between = lines.filter(({ of }) => of.index > from && of.index < to);
    if (between.length !== to - from - 1)
      fault(
        "lines",
        "the file lacks a line beside those of its host, which may be one of its own",
        { host },
      );
  }
};

const verifyLines = ({ file: { lines }, checks: { sha256 }, entry, result, fault }: Verifying) => {
  const encoder = new TextEncoder();
  const hashes = () => lines.map(({ text }) => leafHash(sha256, encoder.encode(text)));
  result.lines = {
    checked: lines.length,
    isWhole: lines.length === entry.lines && lines.every(({ index }, at) => index === at),
  };
  const isRoot = result.lines.isWhole && equalBytes(merkleRoot(sha256, hashes()), entry.root);
  const tree = { size: entry.lines, root: entry.root };
  let named = 0;
  for (const { index, text, proof } of lines) {
    if (proof === null || isIncluded(sha256, tree, { index, text, proof })) continue;
    named += 1;
    fault("line", `line ${index} is not the one that was signed`, {
      host: text.split(" ")[0] ?? "",
    });
  }
  const isProven = lines.every(({ proof }) => proof !== null);
  if (!isRoot && named === 0 && (result.lines.isWhole || !isProven))
    fault("lines", `the lines are not the ${entry.lines} that were signed`);
};
