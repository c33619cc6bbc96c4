import { fromBinary } from "@bufbuild/protobuf";
import { concatBytes, equalBytes } from "#kit/bytes.ts";
import { hourMs } from "#kit/clock.ts";
import { type AccountBody, AccountBodySchema } from "../gen/svc/ingest/v1/ingest_pb.js";
import { accountPayload, statedLosses } from "./account.ts";
import type { HourStatus } from "./decide-hour.ts";
import { type AccountFacts, isCovered, noneCounted, sumHour } from "./hour-accounts.ts";
import type { Sha256 } from "./merkle.ts";
import type { FileAccount, FileLine } from "./statement-file.ts";
import {
  accountPart,
  countsOfVersion,
  type LineCount,
  type LogEntry,
  lineOf,
  type StatementLine,
} from "./statement-line.ts";
import type { ReportFault, StatementFault, Verifying } from "./verify-statement.ts";

/** The counts that are the host's own; the others are core's. */
const countsOfHost: readonly LineCount[] = [
  "accepted",
  "expired",
  "damaged",
  "file_gap_bytes",
  "queue_full",
  "too_large",
  "malformed",
  "retry",
  "file_gaps",
  "filtered",
  "redacted",
];

/** The counts that exclude the state `complete`. */
const lossCounts: readonly LineCount[] = [
  "rejected",
  "lost",
  "missing",
  "file_gap_bytes",
  "file_gaps",
  "queue_full",
  "too_large",
  "export_rejected",
  "export_rejected_items",
];

/** Returns a function that checks the accounts of a line: their digest in the line, their host and signature, and their counts. */
export const createAccountCheck = (
  verifying: Verifying,
): ((line: StatementLine, of: FileLine) => Promise<void>) => {
  const { checks, entry, result } = verifying;
  const { sha256 } = checks;
  /** The hash of each account, by queue and number. */
  const hashes = new Map<string, Uint8Array>();
  const chained: { body: AccountBody; host: string; fault: ReportFault }[] = [];

  const checkOne = async (
    line: StatementLine,
    file: FileAccount,
    lineFault: ReportFault,
  ): Promise<AccountBody | undefined> => {
    const { host } = line;
    result.accounts.checked += 1;
    const body = readAccountBody(file.body);
    // An account that core refused is kept only as evidence: it may have any host and any content.
    if (file.refused !== null) {
      result.accounts.refused += 1;
      if (body?.hostId === host) hashes.set(nameOf(host, body), sha256(accountPayload(file.body)));
      return undefined;
    }
    if (body?.hostId !== host) {
      lineFault("account_host", "an account is not one of this host");
      return undefined;
    }
    const fault = faultAt(lineFault, { account: `${body.queueId.toHex()}/${body.number}` });
    const outcome = await checks.verifyAccount(host, file, body);
    if (outcome === "bad") fault("account_signature", "the host has not signed this account");
    else if (outcome === "good") result.accounts.signed += 1;
    else {
      result.accounts.unknownKey += 1;
      if (entry.version > 1 && isWhole(line))
        fault("account_signature", "the file lacks the certificate of this account's key");
    }
    hashes.set(nameOf(host, body), sha256(accountPayload(file.body)));
    chained.push({ body, host, fault });
    checkBlocks({ ...verifying, fault }, file, body);
    return body;
  };

  const checkChain = () => {
    for (const { body, host, fault } of chained.splice(0)) {
      const before = hashes.get(nameOf(host, { queueId: body.queueId, number: body.number - 1n }));
      if (before !== undefined && !equalBytes(before, body.previousSha256))
        fault("account_chain", "this account does not follow the one before");
    }
  };

  return async (line, file) => {
    const { accounts } = file;
    const fault = faultAt(verifying.fault, { host: line.host });
    if (isWhole(line)) checkWhole(line, entry, fault);
    if (accounts.length === 0 && file.unknown.length === 0) return;
    if (line.of === null || !equalBytes(digestOfItems(sha256, file), line.of))
      fault("accounts", "the line was made of other accounts, or of other blocks");
    const bodies: AccountBody[] = [];
    for (const account of accounts) {
      const body = await checkOne(line, account, fault);
      if (body) bodies.push(body);
    }
    checkChain();
    const rules = checkCounts(line, {
      bodies,
      refused: accounts.length - bodies.length,
      entry,
      fault,
    });
    for (const [rule, counts] of rules) result.rules.push({ host: line.host, rule, ...counts });
  };
};

const faultAt =
  (fault: ReportFault, place: Partial<StatementFault>): ReportFault =>
  (kind, detail, more) =>
    fault(kind, detail, { ...place, ...more });

/** Checks that a line whose state says that all is stored has an account and a queue, and no losses. */
const checkWhole = (
  { state, of, short, queues, counts }: StatementLine,
  { version }: LogEntry,
  fault: ReportFault,
) => {
  if (of === null) fault("state", `the line says ${state} of no account`);
  const isShort = short.length > 0 || lossCounts.some((name) => (counts[name] ?? 0) > 0);
  if (isShort) fault("state", `the line says ${state}, and its counts do not`);
  if (version > 1 && queues.length === 0) fault("state", `the line says ${state} of no queue`);
};

const nameOf = (host: string, { queueId, number }: Pick<AccountBody, "queueId" | "number">) =>
  `${host}\0${queueId.toHex()}/${number}`;

/** Checks that the blocks of an account equal those that core stored, in their order. */
const checkBlocks = (
  { checks: { sha256, readBlock }, result, fault }: Verifying,
  { blocks, rangeDigest }: FileAccount,
  body: AccountBody,
) => {
  if (blocks.length === 0) return;
  let digest: Uint8Array = new Uint8Array();
  let through = body.firstSequence - 1n;
  for (const stored of blocks) {
    const { firstSequence, lastSequence } = stored;
    const block = `${firstSequence}-${lastSequence}`;
    const isOrdered = firstSequence > through && lastSequence >= firstSequence;
    if (!isOrdered || lastSequence > body.lastSequence)
      fault("account_blocks", "a block is not of this account's range", { block });
    through = lastSequence;
    digest = sha256(
      concatBytes([digest, Uint8Array.from(stored.isStored ? [1] : []), stored.sha256]),
    );
    const data = readBlock?.(body.queueId, stored);
    if (readBlock === undefined || data === null) {
      result.blocks.absent += 1;
      continue;
    }
    result.blocks.checked += 1;
    if (data === undefined || !equalBytes(sha256(data), stored.sha256))
      fault("block", "the block is not the one that was stored", { block });
  }
  if (rangeDigest === null || !equalBytes(digest, rangeDigest))
    fault("account_blocks", "these are not the blocks that core counted for this account");
};

/** Checks that a line has the counts of the host's accounts, and a state that they allow. Returns the accounts' counts by rule. */
const checkCounts = (
  line: StatementLine,
  {
    bodies,
    refused,
    entry: { version, hourStartMs: ownMs },
    fault,
  }: { bodies: readonly AccountBody[]; refused: number; entry: LogEntry; fault: ReportFault },
) => {
  const { state } = line;
  const hourStartMs = line.correctedMs ?? ownMs;
  const sums = sumHour(hourStartMs, bodies.map(factsOf));
  const isOwn = ({ fromMs }: AccountBody) =>
    Math.floor(Number(fromMs) / hourMs) * hourMs === hourStartMs;
  if (!bodies.every((body) => body.stopped || isOwn(body)))
    fault("accounts", "an account is of another hour");
  const status: HourStatus = { state: "complete", shortages: [], binding: [], isClockWrong: false };
  const { counts } = lineOf(status, sums, { ...line, delivered: [] });
  const count = (name: LineCount) => line.counts[name] ?? 0;
  for (const name of countsOfHost.filter((each) => countsOfVersion[version].includes(each)))
    if (count(name) !== (counts[name] ?? 0))
      fault(
        "counts",
        `the line has ${name}=${count(name)}, the host's accounts ${counts[name] ?? 0}`,
      );
  if (!isWhole(line)) return sums.rules;
  const before = bodies.reduce((sum, body) => sum + acknowledgedBefore(body), 0);
  if (refused > 0 || count("stored") + count("discarded") + before !== count("accepted"))
    fault("state", `the line says ${state}, and its counts do not`);
  const firstMs = Math.min(...bodies.map(({ fromMs }) => Number(fromMs)));
  const binding =
    version > 1
      ? line.queues
      : [{ queueId: null, fromMs: Math.max(hourStartMs, firstMs), toMs: hourStartMs + hourMs }];
  if (!binding.every((queue) => isCovered(sums, queue.queueId, queue)))
    fault("state", `the line says ${state}, and its accounts lack a part of the hour`);
  const isNamed = (queueId: string) =>
    binding.some((queue) => queue.queueId === null || queue.queueId === queueId);
  if (!bodies.every(({ stopped, queueId }) => stopped || isNamed(queueId.toHex())))
    fault("state", `the line says ${state}, and has accounts of a queue that it does not name`);
  return sums.rules;
};

/** Reports whether the state of a line says that all of the hour is stored. */
const isWhole = ({ state }: StatementLine) => state === "complete" || state === "undelivered";

/** Sequences of an account that core acknowledged under an earlier queue. */
const acknowledgedBefore = ({ firstSequence, lastSequence, ackedBeforeThrough }: AccountBody) => {
  const through = ackedBeforeThrough < lastSequence ? ackedBeforeThrough : lastSequence;
  return through < firstSequence ? 0 : Number(through - firstSequence + 1n);
};

/** Returns the facts of an account itself, without core's counts. */
const factsOf = (body: AccountBody): AccountFacts => ({
  queueId: body.queueId.toHex(),
  fromMs: Number(body.fromMs),
  toMs: Number(body.toMs),
  receivedMs: Number(body.toMs),
  isStopped: body.stopped,
  refused: null,
  isChecked: true,
  sink: "",
  xid: 0n,
  ...noneCounted,
  accepted: Number(body.accepted.reduce((sum, { records }) => sum + records, 0n)),
  exportRejections: [],
  stated: statedLosses(body),
});

/** Returns the digest of a line's accounts, and of its items of a later version as text. */
const digestOfItems = (sha256: Sha256, { accounts, unknown }: FileLine) => {
  const parts = accounts.map(({ body, rangeDigest }) =>
    accountPart({ sha256: sha256(accountPayload(body)), rangeDigest }),
  );
  for (const { after, text } of unknown.toReversed())
    parts.splice(after, 0, sha256(new TextEncoder().encode(text)));
  return sha256(concatBytes(parts));
};

/** Decodes the body of an account; undefined if it is none. */
const readAccountBody = (body: Uint8Array): AccountBody | undefined => {
  try {
    return fromBinary(AccountBodySchema, body);
  } catch {
    return undefined;
  }
};
