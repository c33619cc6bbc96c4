import { fromBinary } from "@bufbuild/protobuf";
import { createProver, leafHash, type TreeProver } from "../../../proto/completeness/merkle.ts";
import { formatCheckpoint } from "../../../proto/completeness/signed-note.ts";
import {
  type FileAccount,
  type FileBlock,
  formatFileCertificate,
  formatFileEnd,
  formatFileLine,
} from "../../../proto/completeness/statement-file.ts";
import { parseLine, type StatementLine } from "../../../proto/completeness/statement-line.ts";
import { AccountBodySchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { decodePemBundle } from "../../../proto/pem.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { findHourAccounts, type HourAccount, hourKey } from "../../store/completeness/hour-facts.ts";
import { findLogHead, findStatement, listChunks, listLogEntries, listLogHashes } from "../../store/completeness/log.ts";
import { findRangeBlock, type RangeBlock } from "../../store/completeness/range-blocks.ts";
import { findHostCertificate } from "../../store/ingest/accounts.ts";

/** What a file of a statement has. */
export interface StatementOrder {
  hour: Date;
  /** Only this host's lines, with their proofs. */
  host?: string | undefined;
  /** The size of the log that a witness kept. */
  since?: number | undefined;
  /** With the accounts of hosts and the certificates of their keys. */
  withAccounts: boolean;
  /** Called for each block of these accounts; the file lists them. */
  onBlock?: ((queueId: Uint8Array, block: RangeBlock) => Promise<void>) | undefined;
}

type Needs = Pick<Core, "db" | "codec">;

/** More lines have no proofs of their own: all of them are the proof. */
const provenLinesMax = 1_000;
const chunksOfRead = 8;
const linesOfRead = 500;

/** Writes the file of an hour's statement, part by part. Throws 404 `not_found` without a statement, or once its lines were dropped. */
export async function* exportStatement(needs: Needs, order: StatementOrder): AsyncGenerator<string> {
  const { db, codec } = needs;
  const statement = await findStatement(db, order.hour);
  const head = await findLogHead(db);
  if (statement === undefined || head === undefined) throw noStatement();
  const log = await listLogHashes(db, head.size);
  const { entryIndex, lines } = statement;
  const [entry = ""] = await listLogEntries(db, entryIndex, 1);
  // A host's lines need the hashes of all others.
  const hashes = order.host !== undefined || lines <= provenLinesMax ? await hashLines(needs, statement) : undefined;
  if (hashes !== undefined && hashes.length !== lines) throw noStatement();
  const lineProver = hashes && createProver(codec.digest, hashes);
  const prover = createProver(codec.digest, log);
  yield `${entry}\n`;
  const certificates = new Set<string>();
  for await (const page of readLines(needs, statement)) {
    const wanted = page.filter(({ line }) => order.host === undefined || line?.host === order.host);
    for (let at = 0; at < wanted.length; at += linesOfRead)
      yield await formatPage(needs, order, {
        page: wanted.slice(at, at + linesOfRead),
        prover: lineProver,
        certificates,
      });
  }
  const { since } = order;
  const isOlder = since !== undefined && since < head.size;
  const note = head.note ?? `${formatCheckpoint({ origin: "unsigned", size: head.size, root: head.root })}\n`;
  yield formatFileEnd({
    consistency: isOlder ? [{ size: since, proof: prover.consistency(since) }] : [],
    index: entryIndex,
    proof: prover.inclusion(entryIndex),
    note,
  });
}

const noStatement = () =>
  new Problem("not_found", { detail: "There is no statement of this hour, or its lines were dropped" });

interface ReadLine {
  index: number;
  text: string;
  line: StatementLine | undefined;
}

async function* readLines({ db, codec }: Needs, { id }: { id: string }): AsyncGenerator<ReadLine[]> {
  const decoder = new TextDecoder();
  for (let fromLine = 0; ; ) {
    const chunks = await listChunks(db, { id, fromLine, limit: chunksOfRead });
    if (chunks.length === 0) return;
    for (const { firstLine, rawBytes, lines } of chunks) {
      const raw = codec.decompress(lines, rawBytes);
      if (raw === null) throw new Error(`the lines from ${firstLine} on of a statement are damaged`);
      const texts = decoder.decode(raw).split("\n");
      yield texts.map((text, at) => ({ index: firstLine + at, text, line: parseLine(text) }));
      fromLine = firstLine + texts.length;
    }
  }
}

const hashLines = async (needs: Needs, statement: { id: string }): Promise<Uint8Array[]> => {
  const encoder = new TextEncoder();
  const hashes: Uint8Array[] = [];
  for await (const page of readLines(needs, statement))
    for (const { text } of page) hashes.push(leafHash(needs.codec.digest, encoder.encode(text)));
  return hashes;
};

const formatPage = async (
  needs: Needs,
  { hour, withAccounts, onBlock }: StatementOrder,
  {
    page,
    prover,
    certificates,
  }: { page: readonly ReadLine[]; prover: TreeProver | undefined; certificates: Set<string> },
): Promise<string> => {
  const { db } = needs;
  const hourOf = (line: StatementLine): number => line.correctedMs ?? hour.getTime();
  const wanted = page.flatMap(({ line }) => (line ? [{ host: line.host, hourMs: hourOf(line) }] : []));
  const accounts = withAccounts ? await findHourAccounts(db, wanted) : new Map<string, HourAccount[]>();
  let text = "";
  for (const { index, text: lineText, line } of page) {
    const found = line?.of ? (accounts.get(hourKey({ host: line.host, hourMs: hourOf(line) })) ?? []) : [];
    const files: FileAccount[] = [];
    for (const account of found) {
      if (line) text += await certificateOf(needs, { host: line.host, account, certificates });
      files.push(await fileAccountOf(needs, { host: line?.host ?? "", account, onBlock }));
    }
    const proof = prover?.inclusion(index) ?? null;
    text += formatFileLine({ index, text: lineText, proof, accounts: files });
  }
  return text;
};

const fileAccountOf = async (
  { db }: Needs,
  { host, account, onBlock }: { host: string; account: HourAccount } & Pick<StatementOrder, "onBlock">,
): Promise<FileAccount> => {
  const { queueId, rangeDigest, refused } = account;
  const [body, signature] = [Uint8Array.from(account.body), Uint8Array.from(account.signature)];
  const blocks: FileBlock[] = [];
  if (onBlock !== undefined && rangeDigest !== null && refused === null) {
    const { firstSequence, lastSequence } = fromBinary(AccountBodySchema, body);
    for (let from = firstSequence; from <= lastSequence; ) {
      const range = { host, queueId, from, through: lastSequence, until: new Date(account.receivedMs) };
      const block = await findRangeBlock(db, range);
      if (block === undefined) break;
      await onBlock(queueId, block);
      blocks.push(block);
      from = block.lastSequence + 1n;
    }
  }
  return { body, signature, rangeDigest, refused, blocks };
};

/** Returns the certificate of an account's key, unless the file has it; empty if core has not issued it. */
const certificateOf = async (
  { db }: Needs,
  { host, account, certificates }: { host: string; account: HourAccount; certificates: Set<string> },
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
