import { execFile } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import { findDeliveredAccounts } from "#functions/store/completeness/settled-hours.ts";
import { hourMs } from "#kit/clock.ts";
import { formatNoteKey } from "#proto/completeness/signed-note.ts";
import { createTestCa, createTestKey, type TestCa } from "#scripts/lab/ca/test-pki.ts";
import { exportThrough, storeAccount } from "#tests/support/accounts.ts";
import { createTestCore, type TestCore } from "#tests/support/core.ts";
import { createStatedHost, type StatedHost } from "#tests/support/fleet/stated-host.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { programFile } from "#tests/support/program.ts";
import { storedQueue } from "#tests/support/stored-envelopes.ts";
import { blockFileName } from "./block-file.ts";
import { exportStatement, type StatementOrder } from "./export-statement.ts";
import {
  createLogSigner,
  type LogSigner,
  type StatementCore,
  writeStatement,
} from "./write-statement.ts";

const minuteMs = 60_000;
const ten = Date.UTC(2026, 10, 25, 10);
const host = "https://fleet.example.test/dc-1/host-1";
const owner = "01920000-0000-7000-8000-00000000000a";
const otherOwner = "01920000-0000-7000-8000-00000000000b";
const origin = "core.example/completeness";
const binding = `queues=${storedQueue.toHex()}`;

/**
 * Writes the statement once no transaction of another test is older than what this one stored: until then a statement may repeat it in the next
 * one, as a correction.
 */
const state = async (core: StatementCore) => {
  const [now] = await core.db.execute("select pg_current_xact_id()::text as xid");
  const isOldest = `select pg_snapshot_xmin(pg_current_snapshot()) > '${now?.xid}'::xid8 as done`;
  await expect.poll(async () => (await core.db.execute(isOldest))[0]?.done).toBe(true);
  return writeStatement(core, owner);
};

const directory = newFolder();
let ca: TestCa;
let logSigner: LogSigner;
let test: TestCore;
let tested: StatedHost;
const opened: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  ca = await createTestCa();
  logSigner = await createLogSigner(
    origin,
    createNodeSigningKey((await createTestKey("ed25519")).pem),
  );
  await writeFile(join(directory, "keys"), `# the log\n${formatNoteKey(logSigner.key)}\n${ca.pem}`);
});
const open = async () => {
  test = await createTestCore({ now: ten + hourMs + 14 * minuteMs });
  await test.seedFleet(6);
  const stated = await createStatedHost(test, { host, ca });
  opened.push(stated, test);
  tested = stated;
  return { ...test.core, logSigner };
};
afterAll(async () => {
  for (const each of opened) await each.close();
});

/** Writes a file of a statement with the blocks of its hosts; returns its path. */
const exported = async (name: string, order: Partial<StatementOrder> = {}) => {
  const onBlock: StatementOrder["onBlock"] = (queueId, block) =>
    writeFile(join(directory, blockFileName(queueId, block, block.encoding === 2)), block.data);
  const parts: string[] = [];
  const given = { hour: new Date(ten), withAccounts: true, onBlock, ...order };
  for await (const part of exportStatement({ db: test.db, codec: zstdCodec }, given))
    parts.push(part);
  const path = join(directory, name);
  await writeFile(path, parts.join(""));
  return path;
};

interface Verified {
  code: number;
  ok: boolean;
  hour: string;
  log: { size: number; signed_by: string[] };
  continues_witness: boolean | null;
  lines: { checked: number; whole: boolean; of: number };
  accounts: { checked: number; signed: number; unknown_key: number; refused: number };
  blocks: { checked: number; absent: number };
  faults: { kind: string; host?: string; account?: string; block?: string }[];
}

const verify = (path: string, ...more: string[]): Promise<Verified> =>
  new Promise((resolve, reject) => {
    const args = [
      programFile("functions/main.ts"),
      "verify-completeness",
      path,
      "--keys",
      join(directory, "keys"),
      ...more,
    ];
    execFile(process.execPath, args, (error, stdout, stderr) => {
      if (stdout === "") reject(new Error(stderr));
      else resolve({ code: Number(error?.code ?? 0), ...JSON.parse(stdout) });
    });
  });

/** Runs the program of the documents, which has none of our code. */
const verifyIndependently = (
  path: string,
  ...more: string[]
): Promise<{ code: number; text: string }> =>
  new Promise((resolve) => {
    const args = ["docs/verify-statement.mjs", path, join(directory, "keys"), ...more];
    execFile(process.execPath, args, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), text: stdout + stderr }),
    );
  });

const edited = async (
  path: string,
  name: string,
  edit: (text: string) => string,
): Promise<string> => {
  const text = await readFile(path, "utf8");
  const changed = edit(text);
  expect(changed).not.toBe(text);
  const to = join(directory, name);
  await writeFile(to, changed);
  return to;
};

/** Changes the last byte of the base64 that the pattern captures. */
const flipLast = (text: string, pattern: RegExp): string => {
  const [whole = "", encoded = ""] = pattern.exec(text) ?? [];
  const bytes = Uint8Array.fromBase64(encoded);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  return text.replace(whole, whole.replace(encoded, bytes.toBase64()));
};

it("is verified offline, and a stored byte, a line and an account that were changed are named", async () => {
  const core = await open();
  await tested.store("one", "two", "x".repeat(3_000));
  await tested.store("four");
  expect(await tested.account(ten)).toBe("");
  await test.clock.advance(minuteMs);
  const report = await state(core);
  expect(report).toEqual({ hour: "2026-11-25T10:00:00.000Z", lines: 6, corrections: 0 });
  const file = await exported("fleet");
  expect(await readFile(file, "utf8")).toContain(
    `${host} undelivered accepted=4 stored=4 ${binding} of=`,
  );
  const good = await verify(file, "--blocks", directory);
  expect(good).toMatchObject({
    code: 0,
    ok: true,
    hour: "2026-11-25T10:00:00Z",
    continues_witness: null,
    faults: [],
    log: { size: 1, signed_by: [origin] },
    lines: { checked: 6, whole: true, of: 6 },
    accounts: { checked: 1, signed: 1, unknown_key: 0, refused: 0 },
    blocks: { checked: 2, absent: 0 },
  });
  expect(await verifyIndependently(file, directory)).toEqual({
    code: 0,
    text: "2026-11-25T10:00:00Z: 6 of 6 lines verify\n",
  });
  const own = await exported("host", { host });
  expect(await verifyIndependently(own, directory)).toMatchObject({ code: 0 });
  expect(await verify(own, "--blocks", directory)).toMatchObject({
    code: 0,
    lines: { checked: 3, whole: false, of: 6, only: host },
    blocks: { checked: 2, absent: 0 },
  });

  const line = await edited(own, "line", (text) => text.replace("stored=4", "stored=5"));
  const another = await edited(file, "another", (text) =>
    text.replace(/host-2 \w+/, "host-2 silent"),
  );
  expect((await verify(line)).faults).toContainEqual(
    expect.objectContaining({ kind: "line", host }),
  );
  expect((await verify(another)).faults).toEqual([
    expect.objectContaining({ kind: "line", host: "https://fleet.example.test/dc-2/host-2" }),
  ]);
  // The last byte is one of the certificate's hash.
  const account = await edited(own, "account", (text) => flipLast(text, /^account (\S+)/m));
  const changed = await verify(account);
  expect(changed).toMatchObject({ code: 1, ok: false });
  expect(changed.faults).toContainEqual(expect.objectContaining({ kind: "accounts", host }));
  expect((await verifyIndependently(line)).text).toContain(
    `line 0 of ${host} is not in the statement`,
  );
  expect((await verifyIndependently(account)).text).toContain(
    `the line of ${host} was made of other accounts`,
  );

  // One block as its sender compressed it, and one that was too small for that.
  for (const name of (await readdir(directory)).filter((each) =>
    /-1-3\.zst$|-4-4\.raw$/.test(each),
  )) {
    const data = await readFile(join(directory, name));
    data[data.length - 1] = (data.at(-1) ?? 0) ^ 1;
    await writeFile(join(directory, name), data);
  }
  const blockFault = { kind: "block", host, account: `${storedQueue.toHex()}/1` };
  expect((await verify(own, "--blocks", directory)).faults).toEqual([
    expect.objectContaining({ ...blockFault, block: "1-3" }),
    expect.objectContaining({ ...blockFault, block: "4-4" }),
  ]);
  expect(await verifyIndependently(own, directory)).toEqual({
    code: 1,
    text: ["1-3", "4-4"]
      .map((block) => `block ${block} of ${host} is not the one that was stored\n`)
      .join(""),
  });
  // Also where core itself lists another digest for it.
  const listed = await edited(own, "listed", (text) =>
    text.replace(/^(block 4 4 \d+ )...../m, "$1AAAAA"),
  );
  expect((await verify(listed)).faults).toEqual([
    expect.objectContaining({ kind: "account_blocks", host }),
  ]);
});

it("lists the blocks of an account in their order, however many there are", async () => {
  const core = await open();
  for (let block = 0; block < 12; block++) await tested.store(`block ${block}`);
  await tested.account(ten);
  await test.clock.advance(minuteMs);
  await state(core);
  const file = await exported("many", { host });
  expect(await verify(file, "--blocks", directory)).toMatchObject({
    code: 0,
    blocks: { checked: 12, absent: 0 },
  });
});

it("goes on with deliveries where it stopped, in the order of commits", async () => {
  const core = await open();
  for (const [index, xid] of [10n, 9n, 100n].entries())
    await storeAccount(core.db, host, ten + index * hourMs, { xid });
  const query = { from: 1n, below: 200n, hour: new Date(ten + 5 * hourMs), limit: 2 };
  expect((await findDeliveredAccounts(core.db, query)).map(({ xid }) => xid)).toEqual([9n, 10n]);
});

it("names what a host did not sign, what nobody signed, and a log that is not continued", async () => {
  const core = await open();
  await tested.store("one");
  await tested.account(ten);
  await test.clock.advance(minuteMs);
  await state(core);
  const file = await exported("first", { host });
  const witness = join(directory, "witness");
  await writeFile(witness, (await readFile(file, "utf8")).split("\n\n").slice(2).join("\n\n"));
  await test.clock.advance(hourMs);
  expect(await state(core)).toMatchObject({ hour: "2026-11-25T11:00:00.000Z", corrections: 0 });
  const later = await exported("later", { host, since: 1 });
  expect(await verify(later, "--witness", witness)).toMatchObject({
    code: 0,
    continues_witness: true,
  });
  const without = await exported("without", { host });
  expect((await verify(without, "--witness", witness)).faults).toEqual([
    expect.objectContaining({ kind: "consistency" }),
  ]);

  const resigned = await edited(later, "resigned", (text) => flipLast(text, /^account \S+ (\S+)/m));
  expect((await verifyIndependently(resigned)).text).toBe(
    `account 1 of ${host} is not signed by its host\n`,
  );
  expect((await verify(resigned)).faults).toEqual([
    expect.objectContaining({
      kind: "account_signature",
      host,
      account: `${storedQueue.toHex()}/1`,
    }),
  ]);
  const size = await edited(later, "size", (text) =>
    text.replace(`${origin}\n2\n`, `${origin}\n3\n`),
  );
  expect((await verify(size)).faults).toContainEqual(
    expect.objectContaining({ kind: "log_signature" }),
  );
  const entry = await edited(later, "entry", (text) => text.replace(" 6 ", " 7 "));
  expect((await verify(entry)).faults).toContainEqual(
    expect.objectContaining({ kind: "log_entry" }),
  );

  // The log of another core, signed with the same key.
  const fork = await open();
  await test.clock.advance(minuteMs);
  await writeStatement(fork, owner);
  await test.clock.advance(hourMs);
  await writeStatement(fork, owner);
  const forked = await exported("forked", { host, since: 1 });
  expect((await verify(forked, "--witness", witness)).faults).toEqual([
    expect.objectContaining({ kind: "consistency" }),
  ]);
});

it("is corrected by a later one when an account comes, or is delivered, after it", async () => {
  const core = await open();
  await tested.account(ten - hourMs, { records: 0 });
  await tested.store("one", "two");
  await exportThrough(test.db, 0);
  await test.clock.advance(minuteMs);
  await state(core);
  const late = await readFile(await exported("late", { host }), "utf8");
  expect(late).toMatch(new RegExp(`^line \\d ${host} late ${binding}$`, "m"));

  await test.clock.advance(hourMs - 5 * minuteMs);
  await tested.account(ten);
  await tested.account(ten + hourMs, { records: 0 });
  await test.clock.advance(5 * minuteMs);
  expect(await state(core)).toMatchObject({ corrections: 1 });
  const second = await exported("second", { host, hour: new Date(ten + hourMs) });
  const line = `${host} undelivered hour=2026-11-25T10:00:00Z accepted=2 stored=2 ${binding} of=`;
  expect(await readFile(second, "utf8")).toContain(line);
  expect(await verify(second)).toMatchObject({ code: 0, accounts: { checked: 2, signed: 2 } });

  await test.db.execute(
    "update export_position set position = pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
  );
  await test.clock.advance(hourMs);
  expect(await state(core)).toMatchObject({ corrections: 1 });
  const third = await exported("third", { host, hour: new Date(ten + 2 * hourMs) });
  const settled = `${host} complete hour=2026-11-25T10:00:00Z accepted=2 stored=2 delivered=backend ${binding} of=`;
  expect(await readFile(third, "utf8")).toContain(settled);
  expect(await verify(third)).toMatchObject({ code: 0 });
  await test.clock.advance(hourMs);
  expect(await state(core)).toMatchObject({ corrections: 0 });
});

it("names what the host dropped, and what core refuses", async () => {
  const core = await open();
  await tested.store("one", "two");
  await tested.account(ten, { dropped: 310 });
  expect(await tested.account(ten + hourMs, { isForged: true })).toBe("signature_invalid");
  await test.clock.advance(minuteMs);
  await state(core);
  const dropped = await exported("dropped", { host });
  expect(await readFile(dropped, "utf8")).toContain(
    `${host} short accepted=2 stored=2 queue_full=310 short=dropped ${binding} of=`,
  );
  expect(await verify(dropped)).toMatchObject({ code: 0 });
  await test.clock.advance(hourMs);
  await state(core);
  const refused = await exported("refused", { host, hour: new Date(ten + hourMs) });
  expect(await readFile(refused, "utf8")).toContain(
    `${host} short short=account_refused:signature_invalid ${binding} of=`,
  );
  expect(await verify(refused)).toMatchObject({
    code: 0,
    accounts: { checked: 1, signed: 0, refused: 1 },
  });
});

it("is written once for each hour, also when nothing happened and by two cores at once", async () => {
  const core = await open();
  await test.db.execute("truncate fleet_status, ingest_host");
  // The hour before is due, this one not yet.
  expect(await state(core)).toMatchObject({ hour: "2026-11-25T09:00:00.000Z", lines: 0 });
  expect(await state(core)).toBeUndefined();
  await test.clock.advance(minuteMs + 3 * hourMs);
  const reports = [];
  for (let round = 0; round < 6; round++)
    reports.push(
      ...(await Promise.all([writeStatement(core, owner), writeStatement(core, otherOwner)])),
    );
  const hours = reports.flatMap((report) => (report ? [report.hour] : []));
  expect(hours.sort()).toEqual(
    ["10", "11", "12", "13"].map((hour) => `2026-11-25T${hour}:00:00.000Z`),
  );
  const rows = await test.db.execute(
    "select s.hour, l.entry from completeness_statement s join completeness_log l on l.index = s.entry_index order by hour",
  );
  expect(rows).toHaveLength(5);
  const empty = await exported("empty");
  expect(await verify(empty)).toMatchObject({
    code: 0,
    lines: { checked: 0, whole: true, of: 0 },
    log: { size: 5 },
  });
});

it("is not signed without a key, and the head is signed as soon as there is one; the audit log anchors each head", async () => {
  const core = await open();
  await test.clock.advance(minuteMs);
  await writeStatement({ ...core, logSigner: null }, owner);
  expect((await verify(await exported("unsigned"))).faults).toEqual([
    expect.objectContaining({ kind: "log_signature" }),
  ]);
  expect(await state(core)).toBeUndefined();
  expect(await verify(await exported("signed"))).toMatchObject({
    code: 0,
    log: { signed_by: [origin] },
  });
  const events = await test.db.execute(
    "select details->>'size' as size, details->>'note' is not null as signed from audit_event where action = 'completeness.head' order by id",
  );
  expect(events).toEqual([
    { size: "1", signed: false },
    { size: "1", signed: true },
  ]);
});

it("keeps the lines of statements as long as the states of hours, and their entries for good", async () => {
  const core = await open();
  const config = { ...core.config, accountRetentionDays: 30 };
  const at = (days: number) => new Date(ten - days * 24 * 60 * minuteMs).toISOString();
  for (const [index, days] of [29, 31, 32].entries()) {
    const id = `01920000-0000-7000-8000-0000000001${index}0`;
    await test.db.execute(
      `insert into completeness_statement (hour, id, lines, root, entry_index, received_before, seen_below, written_at)
         values ('${at(days)}', '${id}', 1, '', ${-1 - index}, '${at(days)}', 0, '${at(days)}')`,
    );
    await test.db.execute(`insert into completeness_chunk values ('${id}', 0, 1, '')`);
  }
  await writeStatement({ ...core, config }, owner);
  const kept = await test.db.execute(
    "select entry_index::int as entry, exists (select from completeness_chunk c where c.statement_id = s.id) as lines from completeness_statement s where entry_index < 0 order by 1",
  );
  expect(kept).toEqual([
    { entry: -3, lines: false },
    { entry: -2, lines: false },
    { entry: -1, lines: true },
  ]);
});

it("lets another core write the next hour where old lines cannot be deleted", async () => {
  const core = await open();
  const config = { ...core.config, accountRetentionDays: Number.POSITIVE_INFINITY };
  await expect(writeStatement({ ...core, config }, owner)).rejects.toThrow();
  await test.clock.advance(hourMs);
  expect(await writeStatement(core, otherOwner)).toMatchObject({
    hour: "2026-11-25T10:00:00.000Z",
  });
});

it("leaves no lines of an attempt that failed, and its log cannot be changed", async () => {
  const core = await open();
  let isBroken = true;
  const broken: StatementCore = {
    ...core,
    codec: {
      ...zstdCodec,
      compress: (raw) => {
        if (isBroken) throw new Error("no memory");
        return zstdCodec.compress(raw);
      },
    },
  };
  await expect(writeStatement(broken, owner)).rejects.toThrow("no memory");
  await test.db.execute(
    "insert into completeness_chunk values ('01920000-0000-7000-8000-000000000001', 0, 1, '')",
  );
  isBroken = false;
  expect(await writeStatement(broken, otherOwner)).toMatchObject({ lines: 6 });
  const chunks = await test.db.execute(
    "select 1 from completeness_chunk where statement_id not in (select id from completeness_statement)",
  );
  expect(chunks).toEqual([]);
  for (const change of ["delete from completeness_log", "update completeness_log set entry = ''"])
    await expect(test.db.execute(change)).rejects.toMatchObject({
      cause: { message: /append-only/ },
    });
});
