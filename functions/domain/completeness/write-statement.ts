/*
 * Writes the statements of hours (docs/completeness-proof.md). Invariants:
 * - Each hour has one statement, in order and without a gap, even if no host has a line: one core at a time has the right to write, and the
 *   transaction that appends to the log checks that it still has it.
 * - Lines are stored earlier, in short transactions, because an export waits for every transaction that writes. Lines of a failed attempt
 *   belong to no statement, and the next writer deletes them.
 * - An account that arrived, was delivered, or was lost by its stream after the statement of its hour is in a later statement as a
 *   correction.
 */
import type { ConfiguredCore, Core } from "#functions/core.ts";
import { readPublicKey, type SigningKey } from "#functions/signer/cryptography.ts";
import {
  type HostHour,
  listHosts,
  listUnenrolledHosts,
} from "#functions/store/completeness/hour-facts.ts";
import {
  claimWriter,
  deleteOldLines,
  deleteUnfinishedChunks,
  findLastStatement,
  findLogHead,
  insertChunk,
  insertLogHead,
  insertStatement,
  listLogHashes,
  lockWriter,
  releaseWriter,
  type StatementRow,
  signLogHead,
} from "#functions/store/completeness/log.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { findOldestXid } from "#functions/store/database/statements.ts";
import { findRetentionPause } from "#functions/store/retention/retention-pause.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { graceMs } from "#proto/completeness/decide-hour.ts";
import { hasDelivered } from "#proto/completeness/hour-accounts.ts";
import { createTree, leafHash, merkleRoot } from "#proto/completeness/merkle.ts";
import {
  formatCheckpoint,
  isNoteKeyName,
  type NoteKey,
  noteKeyOf,
  signNote,
} from "#proto/completeness/signed-note.ts";
import {
  accountsPayload,
  compareHosts,
  formatEntry,
  formatLine,
  lineOf,
  type StatementLine,
} from "#proto/completeness/statement-line.ts";
import { recordAudit } from "../audit/audit-log.ts";
import { findChangedHours } from "./changed-hours.ts";
import { type HourRules, readHourRules, readHourStatuses } from "./report-completeness.ts";

/** The parts of core that write statements. */
export type StatementCore = ConfiguredCore & {
  codec: Core["codec"];
  /** Null: heads are not signed. */
  logSigner: LogSigner | null;
};

/** The result of a call. */
interface StatementReport {
  hour: string;
  lines: number;
  corrections: number;
}

/** Lines that are read, compressed and stored together. */
const linesOfChunk = 1_000;
/** Statements whose lines a call deletes at most: several, because the time for which they are kept may have become shorter. */
const deletedMax = 24;

/** Writes the statement of the next hour if it is due and no other core does so; undefined if there was nothing to write. */
export const writeStatement = async (
  core: StatementCore,
  owner: string,
): Promise<StatementReport | undefined> => {
  const { db, clock } = core;
  await signHead(core);
  const last = await findLastStatement(db);
  const now = clock.now();
  const newest = Math.floor((now - graceMs) / hourMs) * hourMs - hourMs;
  const hour = last ? last.hour.getTime() + hourMs : newest;
  if (hour > newest) return undefined;
  // After a jump of the clock it is not known which hours are over.
  if ((await findRetentionPause(db)) !== null || !(await claimWriter(db, owner))) return undefined;
  try {
    // Another core may have written it meanwhile, and released the right.
    if ((await findLastStatement(db))?.hour.getTime() !== last?.hour.getTime()) return undefined;
    await deleteUnfinishedChunks(db);
    return await writeHour(core, { owner, hour, last });
  } finally {
    try {
      await deleteExpiredLines(core, now);
    } finally {
      await releaseWriter(db, owner);
    }
  }
};

const deleteExpiredLines = async ({ db, config }: StatementCore, now: number) => {
  const keptFrom = new Date(now - config.accountRetentionDays * dayMs);
  for (let count = 0; count < deletedMax; count++)
    if (!(await deleteOldLines(db, keptFrom))) return;
};

const writeHour = async (
  core: StatementCore,
  { owner, hour, last }: { owner: string; hour: number; last: StatementRow | undefined },
): Promise<StatementReport | undefined> => {
  const { db, clock, entropy, codec } = core;
  const id = uuidv7({ clock, entropy });
  const seenBelow = await findOldestXid(db);
  const rules = await readHourRules(core);
  const draft = createDraft(core, { id, hour, owner });
  for await (const hosts of listAllHosts(db, hour)) {
    const hours = hosts.map((host) => ({ host, hourStartMs: hour }));
    await draft.add(await readHourLines(core, rules, { hours, areCorrections: false }));
  }
  const ownLines = draft.tree.size;
  const { hours: corrected, ...reached } = await findChangedHours(db, { hour, last, rules });
  for (let at = 0; at < corrected.length; at += linesOfChunk) {
    const hours = corrected.slice(at, at + linesOfChunk);
    await draft.add(await readHourLines(core, rules, { hours, areCorrections: true }));
  }
  const lines = draft.tree.size;
  const root = draft.tree.root();
  const entry = formatEntry({ version: 2, hourStartMs: hour, lines, root });
  await db.transaction(async (tx) => {
    if (!(await lockWriter(tx, owner))) throw new WriterSuperseded();
    const hashes = await listLogHashes(tx);
    const hash = leafHash(codec.digest, new TextEncoder().encode(entry));
    const row = {
      hour: new Date(hour),
      id,
      lines,
      root,
      entryIndex: hashes.length,
      seenBelow,
      writtenAt: new Date(clock.now()),
      ...reached,
    };
    await insertStatement(tx, row, { text: entry, hash });
    await appendHead(core, tx, {
      size: hashes.length + 1,
      root: merkleRoot(codec.digest, [...hashes, hash]),
      entry,
    });
  });
  return { hour: new Date(hour).toISOString(), lines, corrections: lines - ownLines };
};

/** The lines of a statement under way. Each page is stored and hashed as it is added. */
const createDraft = (
  { db, codec }: StatementCore,
  { id, hour, owner }: { id: string; hour: number; owner: string },
) => {
  const encoder = new TextEncoder();
  const tree = createTree(codec.digest);
  return {
    tree,
    /** Adds a page, and renews the right to write. Throws `WriterSuperseded`. */
    add: async (lines: readonly StatementLine[]): Promise<void> => {
      if (lines.length === 0) return;
      const texts = lines.map((line) => formatLine(line, hour));
      const raw = encoder.encode(texts.join("\n"));
      const firstLine = tree.size;
      for (const text of texts) tree.append(leafHash(codec.digest, encoder.encode(text)));
      await insertChunk(db, {
        statementId: id,
        firstLine,
        rawBytes: raw.length,
        lines: codec.compress(raw),
      });
      if (!(await claimWriter(db, owner))) throw new WriterSuperseded();
    },
  };
};

/** Another core has taken the right to write, and writes the statement; this attempt's lines are dropped. */
class WriterSuperseded extends Error {
  override readonly name = "WriterSuperseded";
  constructor() {
    super("another core writes the statement");
  }
}

/** Lists all hosts of an hour in pages, in the order of their bytes. */
async function* listAllHosts(db: Executor, hour: number): AsyncGenerator<string[]> {
  const unenrolled = await listUnenrolledHosts(db, hour);
  for (let after: string | undefined = ""; after !== undefined; ) {
    const enrolled = await listHosts(db, { after, limit: linesOfChunk });
    const end = enrolled.at(-1);
    const next =
      end === undefined ? -1 : unenrolled.findIndex((host) => compareHosts(host, end) > 0);
    const between = unenrolled.splice(0, next < 0 ? unenrolled.length : next);
    const hosts = between.length === 0 ? enrolled : [...enrolled, ...between].sort(compareHosts);
    for (let at = 0; at < hosts.length; at += linesOfChunk)
      yield hosts.slice(at, at + linesOfChunk);
    after = end;
  }
}

const actor = { type: "system", id: "completeness", display: "statements" } as const;

/** Appends a head, signed if core has a key, and an audit event that records it in the audit chain. */
const appendHead = async (
  core: StatementCore,
  tx: Executor,
  { size, root, entry }: { size: number; root: Uint8Array; entry: string },
) => {
  const note = await noteOf(core, { size, root });
  await insertLogHead(tx, { size, root, note });
  await recordAudit(tx, core, {
    actor,
    action: "completeness.head",
    target: { type: "completeness_log", id: String(size) },
    outcome: "success",
    details: { size, root: root.toBase64(), entry, note },
  });
};

const noteOf = async (
  { logSigner }: StatementCore,
  { size, root }: { size: number; root: Uint8Array },
): Promise<string | null> =>
  logSigner &&
  signNote(
    formatCheckpoint({ origin: logSigner.key.name, size, root }),
    logSigner.key,
    logSigner.sign,
  );

/** Signs the newest head if it was written by a core without a key. */
const signHead = async (core: StatementCore) => {
  const { db, logSigner } = core;
  if (logSigner === null) return;
  const head = await findLogHead(db);
  if (head === undefined || head.note !== null) return;
  const note = await noteOf(core, head);
  await db.transaction(async (tx) => {
    if (note === null || !(await signLogHead(tx, head.size, note))) return;
    await recordAudit(tx, core, {
      actor,
      action: "completeness.head",
      target: { type: "completeness_log", id: String(head.size) },
      outcome: "success",
      details: { size: head.size, root: head.root.toBase64(), note },
    });
  });
};

/** Returns the lines of hosts' hours, in their order; omits hours in which a host has no state. */
const readHourLines = async (
  { db, codec }: Pick<Core, "db" | "codec">,
  rules: HourRules,
  { hours, areCorrections }: { hours: readonly HostHour[]; areCorrections: boolean },
): Promise<StatementLine[]> => {
  const decided = await readHourStatuses({ db }, rules, hours);
  return decided.flatMap(({ host, hourStartMs, accounts, sums, status }) => {
    if (status === null) return [];
    const hasRecords = sums.xid !== null;
    const delivered = rules.exports.flatMap((each) =>
      hasRecords && hasDelivered(sums, each) ? [each.name] : [],
    );
    const digest = accounts.length === 0 ? null : codec.digest(accountsPayload(accounts));
    const correctedMs = areCorrections ? hourStartMs : null;
    return [lineOf(status, sums, { host, correctedMs, delivered, of: digest })];
  });
};

/** Signs the heads of the log of statements. */
export interface LogSigner {
  /** Its name is the origin of the log. */
  key: NoteKey;
  sign(data: Uint8Array): Promise<Uint8Array>;
}

/** Creates the signer of a log from an Ed25519 key. Throws `TypeError` for another key. */
export const createLogSigner = async (
  origin: string,
  signingKey: SigningKey,
): Promise<LogSigner> => {
  const parts = readPublicKey(signingKey.spki);
  if (parts?.algorithm !== "ed25519") throw new TypeError("must hold an Ed25519 key");
  if (!isNoteKeyName(origin))
    throw new TypeError("the origin of the log must have no spaces and no +");
  return { key: await noteKeyOf(origin, parts.bits), sign: async (data) => signingKey.sign(data) };
};
