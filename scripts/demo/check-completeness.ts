/**
 * The statement of the demo's hour (docs/completeness-proof.md). An hour ends for hosts and core when it is over, and nobody waits for that:
 * the collectors stop, which signs and forwards the account of their time, and all clocks of the deployment are moved ahead. They start again,
 * state that they did not run until then, and core writes the statement of the hour as in any other.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { createLogSigner } from "#functions/domain/completeness/log-signer.ts";
import { createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import { hourMs } from "#kit/clock.ts";
import { graceMs } from "#proto/completeness/hour-state.ts";
import { formatNoteKey } from "#proto/completeness/signed-note.ts";
import { parseStatementFile, type StatementFile } from "#proto/completeness/statement-file.ts";
import { hourText, parseLine, type StatementLine } from "#proto/completeness/statement-line.ts";
import type { StatementFault, StatementFaultKind } from "#proto/completeness/verify-statement.ts";
import { type AccountBody, AccountBodySchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { programPaths } from "../bundle/bundle-programs.ts";
import { createTestKey } from "../lab/ca/test-pki.ts";
import { clockAheadFlags, moveDatabaseClock } from "../lab/clock-ahead.ts";
import type { LabContext } from "../lab/context.ts";
import type { Deployment } from "../lab/deployment.ts";
import { untilOk, waitUntil } from "../lab/wait-until.ts";

const origin = "demo.example.test/completeness";

/** Makes the key of the log of statements: the variables of core, and its line in a file of keys. */
export const createStatementLog = async (
  dir: string,
): Promise<{ env: Record<string, string>; key: string }> => {
  const keyFile = join(dir, "completeness.pem");
  const { pem } = await createTestKey("ed25519");
  await writeFile(keyFile, pem, { mode: 0o600 });
  const { key } = await createLogSigner(origin, createNodeSigningKey(pem));
  return {
    env: { SVC_COMPLETENESS_KEY_FILE: keyFile, SVC_COMPLETENESS_ORIGIN: origin },
    key: formatNoteKey(key),
  };
};

/**
 * Lets the demo's hour end, verifies its statement offline with both programs, and again with a stored byte, a line and an account changed. The
 * deployment's clocks stay ahead.
 */
export const checkCompleteness = async (
  deployment: Deployment,
  { startedAt, linesWritten, logKey }: { startedAt: number; linesWritten: number; logKey: string },
  context: LabContext,
) => {
  const { dir, progress } = context;
  const hours = await endHour(deployment, startedAt, context);
  progress("verifying the statement of the hour offline");
  const keysFile = join(dir, "completeness-keys");
  await writeFile(
    keysFile,
    `${logKey}\n${await readFile(deployment.pki.enrollmentCa.certFile, "utf8")}`,
  );
  const { cart, web } = deployment.collectors;
  const stated = await readStatements(deployment, hours, dir);
  // The demo may have run across the end of an hour.
  const found = stated.findLast(
    ({ lines }) => lines.filter(({ counts }) => counts.stored).length === 3,
  );
  if (found === undefined) throw new Error("no statement has records of all three hosts");
  const { statement, lines } = found;
  const verified = await verify(deployment, { ...statement, keysFile });
  progress("changing a stored byte, an account and a line, and verifying again");
  const tampered = await checkTampering(deployment, { statement, keysFile }, context);
  const accepted = stated.flatMap(({ lines: all }) =>
    all.filter(({ host }) => host === web.identity),
  );
  const acceptedLines = accepted.reduce((sum, { counts }) => sum + (counts.accepted ?? 0), 0);
  return {
    hour: hourText(statement.hour),
    hosts: lines.map(({ host, state, counts }) => ({
      host,
      state,
      accepted: counts.accepted,
      stored: counts.stored,
    })),
    // The lines that the collector of the file accepted, as its accounts say.
    accepted_lines: acceptedLines,
    statement_lines: verified.result.lines.of,
    // By svc-server verify-completeness, and by docs/verify-statement.mjs, which has none of our code.
    verified: verified.result.ok,
    verified_independently: verified.independent.code === 0,
    accounts: verified.result.accounts,
    blocks: verified.result.blocks,
    tampered,
    ok:
      lines.every(({ counts }) => counts.accepted === counts.stored) &&
      // Cart was revoked before the hour ended: nothing of it can be known after that.
      lines.every(
        ({ host, state }) =>
          host === cart.identity || state === "undelivered" || state === "complete",
      ) &&
      acceptedLines === linesWritten &&
      verified.result.ok &&
      verified.result.blocks.checked > 0 &&
      verified.independent.code === 0 &&
      tampered.ok,
  };
};

/** Exports the statements of the hours, with the lines of the three hosts that later ones do not correct. */
const readStatements = async (deployment: Deployment, hours: readonly number[], dir: string) => {
  const identities = Object.values(deployment.collectors).map(({ identity }) => identity);
  const stated: { statement: ExportedStatement; lines: StatementLine[] }[] = [];
  for (const hour of hours) {
    const statement = await exportHour(deployment, hour, join(dir, `statement-${hour}`));
    const entry = { version: 2, hourMs: hour } as const;
    const lines = statement.file.lines.flatMap(({ text }) => parseLine(text, entry) ?? []);
    const isWanted = ({ host, correctedMs }: StatementLine) =>
      correctedMs === null && identities.includes(host);
    stated.push({ statement, lines: lines.filter(isWanted) });
  }
  return stated;
};

/** Moves the clocks to the end of the hour, and returns the hours in which the demo ran once each has a statement. */
const endHour = async (
  deployment: Deployment,
  startedAt: number,
  context: LabContext,
): Promise<number[]> => {
  const { collectors, sql } = deployment;
  const { clock, progress } = context;
  const running = [collectors.shop, collectors.web];
  progress(
    "the collectors stop; moving the clocks of hosts, core and database to the end of the hour",
  );
  await Promise.all(running.map(({ stop }) => stop()));
  const hourOf = (ms: number) => Math.floor(ms / hourMs) * hourMs;
  const last = hourOf(clock.now());
  const endMs = last + hourMs;
  const aheadMs = endMs + 60_000 - clock.now();
  await restartCore(deployment, aheadMs, context);
  for (const { start } of running) start(clockAheadFlags(aheadMs));
  const end = new Date(endMs).toISOString();
  await waitUntil({ what: "the hosts have stated the hour", ...context }, async () => {
    const rows = await sql`
      select distinct host_id from ingest_account
      where host_id in ${sql(running.map(({ identity }) => identity))} and refused is null and to_at >= ${end}::timestamptz`;
    return rows.length === running.length || undefined;
  });
  await restartCore(deployment, aheadMs + graceMs, context);
  const findStatement = (hour: number) =>
    sql`select 1 from completeness_statement where hour = ${new Date(hour).toISOString()}::timestamptz`;
  await waitUntil({ what: "core has stated the hour", ...context }, async () =>
    (await findStatement(last)).length > 0 ? true : undefined,
  );
  const first = hourOf(startedAt);
  return Array.from({ length: (last - first) / hourMs + 1 }, (_, index) => first + index * hourMs);
};

const restartCore = async (
  deployment: Deployment,
  aheadMs: number,
  context: LabContext,
): Promise<void> => {
  const { httpUrl, sql } = deployment;
  await deployment.kill();
  await moveDatabaseClock(sql, aheadMs);
  deployment.start({ nodeFlags: clockAheadFlags(aheadMs) });
  await untilOk(context, "core takes telemetry", [`${httpUrl}/readyz/ingest`]);
};

/** A statement as a file, with the blocks of its accounts in a folder. */
interface ExportedStatement {
  hour: number;
  text: string;
  file: StatementFile;
  path: string;
  blocks: string;
}

const exportHour = async (
  deployment: Deployment,
  hour: number,
  folder: string,
): Promise<ExportedStatement> => {
  const path = join(folder, "statement.txt");
  const blocks = join(folder, "blocks");
  await mkdir(folder);
  const args = ["export-completeness", hourText(hour), "--accounts", "--blocks", blocks];
  const { code, stdout: text, stderr } = await deployment.run(args);
  if (code !== 0) throw new Error(`export-completeness: ${stderr}`);
  await writeFile(path, text);
  return { hour, text, path, blocks, file: parseStatementFile(text) };
};

interface Verified {
  ok: boolean;
  lines: { checked: number; of: number };
  accounts: object;
  blocks: { checked: number; absent: number };
  faults: StatementFault[];
}

/** Runs both verifiers. */
const verify = async (
  { processes }: Deployment,
  { path, keysFile, blocks }: Pick<ExportedStatement, "path" | "blocks"> & { keysFile: string },
) => {
  const server = [
    programPaths["svc-server"],
    "verify-completeness",
    path,
    "--keys",
    keysFile,
    "--blocks",
    blocks,
  ];
  const [ours, independent] = await Promise.all([
    processes.run({ args: server }),
    processes.run({ args: ["docs/verify-statement.mjs", path, keysFile, blocks] }),
  ]);
  if (ours.stdout === "") throw new Error(`verify-completeness: ${ours.stderr}`);
  return { result: JSON.parse(ours.stdout) as Verified, independent };
};

/** What is changed of a statement and its telemetry: `body` and `line` as they are after and before it. */
interface TamperedPlaces {
  block: { queue: string; first: bigint; last: bigint };
  account: { queue: string; body: AccountBody };
  line: string;
}

/**
 * Changes in the database one byte of what `web` sent and one number of what `shop` stated, exports the statement anew, and changes a number in
 * the line of `cart`. Both programs must name these three, and nothing else.
 */
const checkTampering = async (
  deployment: Deployment,
  { statement, keysFile }: { statement: ExportedStatement; keysFile: string },
  { dir }: LabContext,
) => {
  const { sql, collectors } = deployment;
  const shop = collectors.shop.identity;
  const cart = collectors.cart.identity;
  const web = collectors.web.identity;
  const { block, account, line } = placesOf(statement, { shop, cart, web });
  await sql`update ingest_block set data = set_byte(data, length(data) - 1, get_byte(data, length(data) - 1) # 1)
    where host_id = ${web} and queue_id = decode(${block.queue}, 'hex') and first_sequence = ${String(block.first)}::bigint`;
  const body = toBinary(AccountBodySchema, account.body).toHex();
  await sql`update ingest_account set body = decode(${body}, 'hex')
    where host_id = ${shop} and queue_id = decode(${account.queue}, 'hex') and number = ${String(account.body.number)}::bigint`;
  const files = await exportHour(deployment, statement.hour, join(dir, "tampered"));
  const changed = line.replace(
    / stored=(\d+)/,
    (_, stored: string) => ` stored=${Number(stored) + 1}`,
  );
  await writeFile(files.path, files.text.replace(line, changed));
  const { result, independent } = await verify(deployment, { ...files, keysFile });
  const named = independent.stdout.trimEnd().split("\n");
  const isNamed = (kind: StatementFaultKind, host: string) =>
    result.faults.some((fault) => fault.kind === kind && fault.host === host);
  return {
    faults: result.faults.map(({ kind, host, account: number, block: range }) =>
      [kind, host, number, range].filter((part) => part !== undefined).join(" "),
    ),
    named_independently: named,
    ok:
      !result.ok &&
      isNamed("block", web) &&
      isNamed("account_signature", shop) &&
      isNamed("line", cart) &&
      result.faults.every(({ host }) => host !== undefined && [shop, cart, web].includes(host)) &&
      [
        `block ${block.first}-${block.last} of ${web} is not the one that was stored`,
        `account ${account.body.number} of ${shop} is not signed by its host`,
      ].every((text) => named.includes(text)) &&
      named.some((text) => text.endsWith(` of ${cart} is not in the statement`)),
  };
};

const placesOf = (
  { file: { lines } }: { file: StatementFile },
  { shop, cart, web }: Record<"shop" | "cart" | "web", string>,
): TamperedPlaces => {
  const lineOf = (host: string) => lines.find(({ text }) => text.startsWith(`${host} `));
  const accountsOf = (host: string) =>
    (lineOf(host)?.accounts ?? []).map(({ body, blocks }) => ({
      body: fromBinary(AccountBodySchema, body),
      blocks,
    }));
  const sent = accountsOf(web).find(({ blocks }) => blocks.length > 0);
  const stated = accountsOf(shop).find(({ body }) => body.accepted.length > 0);
  const [block] = sent?.blocks ?? [];
  const [count] = stated?.body.accepted ?? [];
  const line = lineOf(cart)?.text;
  if (!sent || !block || !stated || !count || !line)
    throw new Error("the statement lacks what the demo changes");
  count.records += 1n;
  return {
    block: {
      queue: sent.body.queueId.toHex(),
      first: block.firstSequence,
      last: block.lastSequence,
    },
    account: { queue: stated.body.queueId.toHex(), body: stated.body },
    line,
  };
};
