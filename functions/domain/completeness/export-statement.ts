import { fromBinary } from "@bufbuild/protobuf";
import type { Core } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import {
  findHourAccounts,
  type HourAccount,
  hourKey,
} from "#functions/store/completeness/hour-facts.ts";
import {
  findLogHead,
  findStatement,
  listChunks,
  listLogEntries,
  listLogHashes,
} from "#functions/store/completeness/log.ts";
import { findRangeBlock, type RangeBlock } from "#functions/store/completeness/range-blocks.ts";
import { findHostNamed } from "#functions/store/completeness/report.ts";
import { findHostCertificate } from "#functions/store/ingest/accounts.ts";
import { createProver, leafHash, type TreeProver } from "#proto/completeness/merkle.ts";
import { formatCheckpoint } from "#proto/completeness/signed-note.ts";
import {
  type FileAccount,
  type FileBlock,
  formatFileCertificate,
  formatFileEnd,
  formatFileLine,
  formatFileOnly,
} from "#proto/completeness/statement-file.ts";
import {
  compareLines,
  hourText,
  type LogEntry,
  parseEntry,
  parseLine,
  type StatementLine,
} from "#proto/completeness/statement-line.ts";
import { AccountBodySchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { decodePemBundle } from "#proto/pem.ts";
import { type By, recordOperatorAction } from "../audit/audit-log.ts";

/** The contents that a caller asks for in the file of a statement. */
export interface StatementOrder {
  hour: Date;
  /** Only this host's lines, with their proofs. */
  host?: string | undefined;
  /** The size of the log that a witness kept. */
  since?: number | undefined;
  /** With the accounts of hosts and the certificates of their keys. */
  withAccounts: boolean;
  /** Called for each block of these accounts, which the file lists. */
  onBlock?: ((queueId: Uint8Array, block: RangeBlock) => Promise<void>) | undefined;
}

type Needs = Pick<Core, "db" | "codec">;

/** For more lines, the file has all of them instead of proofs. */
const provenLinesMax = 1_000;
const chunksOfRead = 8;
const linesOfRead = 500;

/** Yields the file of an hour's statement. Throws 404 `not_found` without a statement, or once its lines were deleted. */
export async function* exportStatement(
  needs: Needs,
  order: StatementOrder,
): AsyncGenerator<string> {
  const { db, codec } = needs;
  const statement = await findStatement(db, order.hour);
  const head = await findLogHead(db);
  if (statement === undefined || head === undefined) throw noStatement();
  const log = await listLogHashes(db, head.size);
  const { id, entryIndex, lines } = statement;
  const [text = ""] = await listLogEntries(db, entryIndex, 1);
  const entry = parseEntry(text);
  if (entry === undefined)
    throw new Error(`entry ${entryIndex} of the log of statements is damaged`);
  const { host } = order;
  // A host's lines need the hashes of all others.
  const hasProofs = host !== undefined || lines <= provenLinesMax;
  const scanned = hasProofs ? await scanLines(needs, { id, entry, host }) : undefined;
  if (scanned !== undefined && scanned.hashes.length !== lines) throw noStatement();
  yield `${text}\n${host === undefined ? "" : formatFileOnly(host)}`;
  const lineProver = scanned && createProver(codec.digest, scanned.hashes);
  const certificates = new Set<string>();
  for await (const page of readLines(needs, { id, entry })) {
    const chosen = page.filter(({ index }) => host === undefined || scanned?.wanted.has(index));
    for (let at = 0; at < chosen.length; at += linesOfRead)
      yield await formatPage(needs, order, {
        page: chosen.slice(at, at + linesOfRead),
        prover: lineProver,
        certificates,
      });
  }
  yield await formatEnd(needs, {
    order,
    head,
    entryIndex,
    prover: createProver(codec.digest, log),
  });
}

/** Formats the end of a file: the proofs that the log, as signed by `head`, contains its entry and the first one. */
const formatEnd = async (
  { db }: Needs,
  {
    order: { since },
    head: { size, root, note },
    entryIndex,
    prover,
  }: {
    order: StatementOrder;
    head: { size: number; root: Uint8Array; note: string | null };
    entryIndex: number;
    prover: TreeProver;
  },
): Promise<string> => {
  const [first = ""] = await listLogEntries(db, 0, 1);
  const isOlder = since !== undefined && since < size;
  return formatFileEnd({
    first: { entry: first, proof: prover.inclusion(0) },
    consistency: isOlder ? [{ size: since, proof: prover.consistency(since) }] : [],
    index: entryIndex,
    proof: prover.inclusion(entryIndex),
    note: note ?? `${formatCheckpoint({ origin: "unsigned", size, root })}\n`,
  });
};

const noStatement = () =>
  new Problem("not_found", {
    detail: "There is no statement of this hour, or its lines were dropped",
  });

interface IndexedLine {
  index: number;
  text: string;
  line: StatementLine;
}

interface ReadStatement {
  id: string;
  entry: LogEntry;
}

async function* readLines(
  { db, codec }: Needs,
  { id, entry }: ReadStatement,
): AsyncGenerator<IndexedLine[]> {
  const decoder = new TextDecoder();
  for (let fromLine = 0; ; ) {
    const chunks = await listChunks(db, { id, fromLine, limit: chunksOfRead });
    if (chunks.length === 0) return;
    for (const { firstLine, rawBytes, lines } of chunks) {
      const raw = codec.decompress(lines, rawBytes);
      if (raw === null) throw damaged(entry, firstLine);
      const texts = decoder.decode(raw).split("\n");
      yield texts.map((text, at) => {
        const line = parseLine(text, entry);
        if (line === undefined) throw damaged(entry, firstLine + at);
        return { index: firstLine + at, text, line };
      });
      fromLine = firstLine + texts.length;
    }
  }
}

const damaged = ({ hourStartMs }: LogEntry, line: number) =>
  new Error(`the statement of ${hourText(hourStartMs)} is damaged from line ${line} on`);

/** Hashes all lines, and selects those of a host with the lines before and after them, which show that there are no others. */
const scanLines = async (
  needs: Needs,
  { host = "", ...statement }: ReadStatement & { host: string | undefined },
): Promise<{ hashes: Uint8Array[]; wanted: ReadonlySet<number> }> => {
  const encoder = new TextEncoder();
  const hashes: Uint8Array[] = [];
  const wanted = new Set<number>();
  let before: IndexedLine | undefined;
  /** One among the lines of the hour, and one among the corrections. */
  const targets = new Set([null, 0].map((correctedMs) => ({ host, correctedMs })));
  for await (const page of readLines(needs, statement))
    for (const read of page) {
      hashes.push(leafHash(needs.codec.digest, encoder.encode(read.text)));
      const reached = [...targets].filter((target) => compareLines(read.line, target) >= 0);
      for (const target of reached) targets.delete(target);
      if (before && reached.length > 0) wanted.add(before.index);
      if (reached.length > 0 || read.line.host === host || before?.line.host === host)
        wanted.add(read.index);
      before = read;
    }
  if (before && targets.size > 0) wanted.add(before.index);
  return { hashes, wanted };
};

/** Formats lines and their accounts, after the certificates that the file does not have yet. */
const formatPage = async (
  needs: Needs,
  order: StatementOrder,
  {
    page,
    prover,
    certificates,
  }: { page: readonly IndexedLine[]; prover: TreeProver | undefined; certificates: Set<string> },
): Promise<string> => {
  const keyOf = ({ host, correctedMs }: StatementLine) => ({
    host,
    hourStartMs: correctedMs ?? order.hour.getTime(),
  });
  // Lines of other hosts only prove which lines the host has.
  const isWanted = ({ host, of }: StatementLine) =>
    of !== null && (order.host === undefined || host === order.host);
  const hours = page.filter(({ line }) => isWanted(line)).map(({ line }) => keyOf(line));
  const accounts = order.withAccounts
    ? await findHourAccounts(needs.db, hours)
    : new Map<string, HourAccount[]>();
  let formatted = "";
  for (const { index, text, line } of page) {
    const { host } = line;
    const files: FileAccount[] = [];
    for (const account of accounts.get(hourKey(keyOf(line))) ?? []) {
      formatted += await certificateOf(needs, { host, account, certificates });
      files.push(await fileAccountOf(needs, { host, account, onBlock: order.onBlock }));
    }
    const proof = prover?.inclusion(index) ?? null;
    formatted += formatFileLine({ index, text, proof, accounts: files });
  }
  return formatted;
};

const fileAccountOf = async (
  needs: Needs,
  {
    host,
    account,
    onBlock,
  }: { host: string; account: HourAccount } & Pick<StatementOrder, "onBlock">,
): Promise<FileAccount> => {
  const { queueId, rangeDigest, refused } = account;
  const blocks: FileBlock[] = [];
  if (onBlock !== undefined && rangeDigest !== null && refused === null)
    for await (const block of listAccountBlocks(needs, { host, account })) {
      await onBlock(queueId, block);
      blocks.push(block);
    }
  return {
    body: Uint8Array.from(account.body),
    signature: Uint8Array.from(account.signature),
    rangeDigest,
    refused,
    blocks,
  };
};

/** Lists the stored blocks of an account in order, up to the first that was deleted. */
async function* listAccountBlocks(
  { db }: Needs,
  { host, account }: { host: string; account: HourAccount },
): AsyncGenerator<RangeBlock> {
  const { queueId, body, receivedMs } = account;
  const { firstSequence, lastSequence } = fromBinary(AccountBodySchema, body);
  const until = new Date(receivedMs);
  for (let from = firstSequence; from <= lastSequence; ) {
    const block = await findRangeBlock(db, { host, queueId, from, through: lastSequence, until });
    if (block === undefined) return;
    yield block;
    from = block.lastSequence + 1n;
  }
}

/** Returns the certificate of an account's key, unless the file has it; empty if core has not issued it. */
const certificateOf = async (
  { db }: Needs,
  {
    host,
    account,
    certificates,
  }: { host: string; account: HourAccount; certificates: Set<string> },
): Promise<string> => {
  if (account.refused !== null) return "";
  const { certificateSha256 } = fromBinary(AccountBodySchema, account.body);
  const name = certificateSha256.toHex();
  if (certificates.has(name)) return "";
  certificates.add(name);
  const issued = await findHostCertificate(db, host, certificateSha256);
  const [der] = (issued && decodePemBundle(issued.certificatePem, "CERTIFICATE")) ?? [];
  return der ? formatFileCertificate(der) : "";
};

/** Selects the parts of a statement that an operator may read: never blocks, which are telemetry. `host` may be a device id. */
type ReadOrder = Omit<StatementOrder, "onBlock">;

/** Yields the file of an hour's statement; audited before the first part. Throws 404 `not_found` as `exportStatement` does. */
export const readStatement = async (
  core: Pick<Core, "db" | "reports" | "clock" | "entropy" | "codec">,
  order: ReadOrder,
  by: By,
): Promise<AsyncGenerator<string, void, void>> => {
  const { hour, withAccounts } = order;
  const host = order.host === undefined ? undefined : await findHostNamed(core.reports, order.host);
  const parts = exportStatement({ db: core.reports, codec: core.codec }, { ...order, host });
  // Throws without a statement.
  const first = await parts.next();
  await core.db.transaction((tx) =>
    recordOperatorAction(tx, core, by, {
      action: "completeness.read",
      target: { type: "completeness_statement", id: hourText(hour.getTime()) },
      details: { host, accounts: withAccounts },
    }),
  );
  return (async function* () {
    if (!first.done) yield first.value;
    yield* parts;
  })();
};
