/* `svc-server backup` and `restore` of the bundle, as docs/backup.md has them: a drill, and what is refused. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readArchive, writeArchive } from "../../functions/node/backup/archive.ts";
import { backupEntries, readBackup } from "../../functions/node/backup/backup-file.ts";
import { mintBridgeToken, people, seedPeople } from "../../scripts/lab/people.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { logged, startProgram, stopProgram } from "../support/program.ts";
import { findStored, openEnvelopeStore } from "../support/stored-envelopes.ts";

const dir = mkdtempSync(join(tmpdir(), "svc-backup-"));
const inDir = (...names: string[]) => join(dir, ...names);
const databases: TestDatabase[] = [];
const secret = "a-test-secret-of-more-than-32-bytes";
const receivedAt = Date.now() - 3_600_000;
const receivers = "web_url: https://fleet.test\nreceivers: []";

const createEmpty = async (): Promise<TestDatabase> => {
  const database = await createTestDatabase({ url: "postgres://server/template1" });
  databases.push(database);
  return database;
};
const environment = ({ url }: Pick<TestDatabase, "url">) => ({
  PORT: "0",
  SVC_DATABASE_URL: url,
  SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
  SVC_AUTH_TOKEN_SECRET_FILE: inDir("secrets", "auth-token-secret"),
  SVC_OPS_BEARER_TOKEN: "an-ops-token # of 'the' test",
  SVC_DIRECTORY_PROVIDER: "file",
  SVC_DIRECTORY_FILE: inDir("secrets", "people.yaml"),
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: inDir("secrets", "receipts.pem"),
  SVC_CHAT_RECEIPT_SIGNING_KEY_ID: "first",
  SVC_WATCH_RECEIVERS: receivers,
  USER: "ada",
});
const run = async (database: Pick<TestDatabase, "url">, ...args: string[]) => {
  const program = startProgram("functions/main.ts", args, environment(database));
  return { exitCode: await program.exited, printed: program.records[0], err: program.stderr };
};

/** The rows of each table, whatever their order. */
const digests = async (database: TestDatabase): Promise<Record<string, string>> => {
  const { sql } = database.connect();
  const names = await sql<{ name: string }[]>`
    select relname::text as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
      and relname not like 'schema_%' order by 1`;
  const digest = async (name: string) => {
    const [row] = await sql.unsafe<{ digest: string }[]>(
      `select count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by t::text)), '') as digest from "${name}" as t`,
    );
    return [name, row?.digest ?? ""] as const;
  };
  return Object.fromEntries(await Promise.all(names.map(({ name }) => digest(name))));
};

let source: TestDatabase;
let key: string;
let recipient: string;
let before: Record<string, string>;
const restoring = (...more: string[]) => ["restore", inDir("whole.backup"), "--identity", key, ...more];

beforeAll(async () => {
  mkdirSync(inDir("secrets"));
  writeFileSync(inDir("secrets", "auth-token-secret"), `${secret}\n`, { mode: 0o600 });
  writeFileSync(inDir("secrets", "people.yaml"), "people: []\ngroups: {}\n", { mode: 0o600 });
  writeFileSync(inDir("secrets", "receipts.pem"), "a key", { mode: 0o600 });
  key = inDir("backup.key");
  source = await createTestDatabase();
  databases.push(source);
  const { db } = source.connect();
  // As a core that starts: the tenant, and where the database is.
  expect(await run(source, "confirm-access")).toMatchObject({ exitCode: 0 });
  await seedPeople(db, Date.now());
  await seedFleet(db, { count: 30, now: new Date() });
  const store = await openEnvelopeStore(source, () => receivedAt);
  await store.lines("host-a", ["a tab\tand a \\ and \n a line", "a2"]);
  await store.close();
  const made = await run(source, "backup", "--new-key", key);
  recipient = String(made.printed?.recipient);
  before = await digests(source);
  const written = await run(
    source,
    "backup",
    "--to",
    inDir("whole.backup"),
    "--recipient",
    recipient,
    "--with-telemetry",
  );
  expect(written).toMatchObject({ exitCode: 0, err: "" });
}, 120_000);
afterAll(async () => {
  await Promise.all(databases.map((database) => database.drop()));
  rmSync(dir, { recursive: true });
});

describe("svc-server backup", () => {
  it("writes a file that only its owner reads, of which nothing is plain, and audits it", async () => {
    expect(statSync(inDir("whole.backup")).mode & 0o777).toBe(0o600);
    expect(statSync(key).mode & 0o777).toBe(0o600);
    const bytes = readFileSync(inDir("whole.backup")).toString("latin1");
    expect(bytes.slice(0, 22)).toBe("age-encryption.org/v1\n");
    for (const text of [secret, "host-a", "manifest.json"]) expect(bytes).not.toContain(text);
    const { sql } = source.connect();
    const [event] = await sql`select actor_display, target_id, details from audit_event where action = 'backup.create'`;
    expect(event).toMatchObject({
      actor_display: "svc-server (ada)",
      target_id: "whole.backup",
      details: { with_telemetry: true, recipients: [recipient] },
    });
  });

  it("replaces no backup, and none that is being written", async () => {
    const again = await run(source, "backup", "--to", inDir("whole.backup"), "--recipient", recipient);
    expect(again).toMatchObject({ exitCode: 1, err: expect.stringContaining("whole.backup exists already") });
    writeFileSync(inDir("other.backup.partial"), "");
    const refused = await run(source, "backup", "--to", inDir("other.backup"), "--recipient", recipient);
    expect(refused).toMatchObject({ exitCode: 1, err: expect.stringContaining("other.backup.partial exists") });
  });

  it("names the file that it cannot create, and not the database", async () => {
    const refused = await run(source, "backup", "--to", inDir("none", "x.backup"), "--recipient", recipient);
    expect(refused).toMatchObject({
      exitCode: 1,
      err: expect.stringMatching(/^\S+x\.backup cannot be created: ENOENT/),
    });
    const full = Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    const entries = async function* () {
      yield await Promise.reject(full);
    };
    await expect(writeArchive(inDir("full.backup"), [recipient], entries())).rejects.toThrow(
      /full\.backup cannot be written: ENOSPC/,
    );
  });

  it.each([
    ["no recipient", ["--recipient", "age1nobody"], 1, "age1nobody is no age recipient"],
    ["none given", [], 2, "svc-server backup --to FILE"],
    ["an unknown flag", ["--recipents", "x"], 2, "svc-server backup --to FILE"],
  ] as const)("refuses %s", async (_, args, exitCode, message) => {
    const refused = await run(source, "backup", "--to", inDir("refused.backup"), ...args);
    expect(refused).toMatchObject({ exitCode, err: expect.stringContaining(message) });
  });

  it("refuses a database that no core has used", async () => {
    const refused = await run(await createEmpty(), "backup", "--to", inDir("none.backup"), "--recipient", recipient);
    expect(refused).toMatchObject({ exitCode: 1, err: expect.stringContaining("no core has used it") });
  });
});

describe("svc-server restore", () => {
  it("counts with --check what a restore would undo", async () => {
    const { sql } = source.connect();
    await sql`update certificate set issued_at = now() + interval '1 minute' where id = (select id from certificate order by id limit 1)`;
    const checked = await run(source, ...restoring("--check"));
    expect(checked).toMatchObject({ exitCode: 0, err: "" });
    expect(checked.printed).toMatchObject({
      with_telemetry: true,
      rows: { collector_identity: 30, ingest_block: 1 },
      undone: { actions: { "backup.create": 1 }, certificates: 1, hosts: 0, envelopes: "0" },
    });
  });

  it("brings every row to an empty database, where core starts and holds all access", async () => {
    const target = await createEmpty();
    const restored = await run(target, ...restoring());
    expect(restored).toMatchObject({ exitCode: 0, err: "", printed: { with_telemetry: true } });
    const after = await digests(target);
    // The restore itself is an event.
    const own = (name: string) => name === "audit_event" || name === "audit_pending";
    const others = (all: Record<string, string>) => Object.entries(all).filter(([name]) => !own(name));
    expect(others(after)).toEqual(others(before));
    expect(Number.parseInt(after.audit_event ?? "", 10)).toBe(Number.parseInt(before.audit_event ?? "", 10) + 1);
    expect((await findStored(target.connect().sql)).map(({ payload }) => payload)).toEqual(
      (await findStored(source.connect().sql)).map(({ payload }) => payload),
    );
    const core = startProgram("functions/main.ts", [], environment(target));
    const { port } = await logged(core, "ready");
    const token = await mintBridgeToken(secret, { sub: people.admin.userId, now: Date.now() });
    const answer = await fetch(`http://127.0.0.1:${port}/v1/whoami`, { headers: { authorization: `Bearer ${token}` } });
    expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([401, "access_held"]);
    expect(await stopProgram(core)).toBe(0);
  });

  it("leaves telemetry out unless it is asked for", async () => {
    const file = inDir("small.backup");
    expect((await run(source, "backup", "--to", file, "--recipient", recipient)).exitCode).toBe(0);
    const target = await createEmpty();
    expect((await run(target, "restore", file, "--identity", key)).exitCode).toBe(0);
    const { ingest_block, collector_identity, ingest_cursor } = await digests(target);
    expect([ingest_block, collector_identity, ingest_cursor]).toEqual([
      "0 ",
      before.collector_identity,
      before.ingest_cursor,
    ]);
  });

  it("writes files and settings into a new directory, which core can read", async () => {
    const to = inDir("settings");
    const { exitCode } = await run({ url: "" }, ...restoring("--settings", to));
    expect(exitCode).toBe(0);
    expect(statSync(to).mode & 0o777).toBe(0o700);
    expect(readFileSync(join(to, "core.env"), "utf8").split("\n")).toEqual(
      expect.arrayContaining([
        `SVC_AUTH_TOKEN_SECRET_FILE=${join(to, "auth-token-secret")}`,
        `SVC_OPS_BEARER_TOKEN="an-ops-token # of 'the' test"`,
        `SVC_DATABASE_URL=${source.url}`,
        `SVC_CHAT_RECEIPT_SIGNING_KEY_PATH=${join(to, "chat-receipt-signing-key")}`,
        `SVC_WATCH_RECEIVERS_FILE=${join(to, "watch-receivers")}`,
      ]),
    );
    expect(readFileSync(join(to, "auth-token-secret"), "utf8")).toBe(`${secret}\n`);
    expect(readFileSync(join(to, "chat-receipt-signing-key"), "utf8")).toBe("a key");
    expect(readFileSync(join(to, "watch-receivers"), "utf8")).toBe(receivers);
    expect(statSync(join(to, "auth-token-secret")).mode & 0o777).toBe(0o600);
    expect(await run({ url: "" }, ...restoring("--settings", to))).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining("exists already"),
    });
  });

  it("refuses a database that is in use, and another tenant's", async () => {
    const used = await run(source, ...restoring());
    expect(used).toMatchObject({ exitCode: 1, err: expect.stringContaining("the database is not empty") });
    const env = { ...environment(await createEmpty()), SVC_TENANT_ID: "01920000-0000-7000-8000-000000000002" };
    const program = startProgram("functions/main.ts", restoring(), env);
    expect(await program.exited).toBe(1);
    expect(program.stderr).toContain("is of the tenant 01920000-0000-7000-8000-000000000001");
  });

  it("refuses a key that does not open it, a changed byte and a missing end, and then restores into the same database", async () => {
    const target = await createEmpty();
    const other = inDir("other.key");
    await run(source, "backup", "--new-key", other);
    const whole = readFileSync(inDir("whole.backup"));
    const changed = Uint8Array.from(whole, (byte, index) => (index === whole.length - 100 ? byte ^ 1 : byte));
    writeFileSync(inDir("changed.backup"), changed);
    writeFileSync(inDir("cut.backup"), whole);
    truncateSync(inDir("cut.backup"), whole.length - 1);
    for (const [file, identity, message] of [
      ["whole.backup", other, "no identity opens it"],
      ["changed.backup", key, "was changed or cut"],
      ["cut.backup", key, "was changed or cut"],
      ["absent.backup", key, "absent.backup cannot be read: ENOENT"],
    ] as const) {
      const refused = await run(target, "restore", inDir(file), "--identity", identity);
      expect([file, refused.exitCode, refused.err]).toEqual([file, 1, expect.stringContaining(message)]);
    }
    expect((await run(target, ...restoring())).exitCode).toBe(0);
  });

  it("refuses a backup of a newer core, and one that has fewer rows than it says", async () => {
    const identities = [readFileSync(key, "utf8").split("\n")[1] ?? ""];
    const write = async (name: string, change: (text: string) => string) => {
      const entries = async function* () {
        for await (const { name: entry, data } of readArchive(inDir("whole.backup"), identities))
          yield {
            name: entry,
            data: entry.endsWith(".json") ? new TextEncoder().encode(change(new TextDecoder().decode(data))) : data,
          };
      };
      await writeArchive(inDir(name), [recipient], entries());
    };
    await write("newer.backup", (text) => text.replace('"0001_', '"9001_'));
    await write("fewer.backup", (text) => text.replace('"collector_identity": 30', '"collector_identity": 31'));
    const target = await createEmpty();
    for (const [file, message] of [
      ["newer.backup", "restore it with that version"],
      ["fewer.backup", "collector_identity has 30 rows, and the backup says 31"],
    ] as const) {
      const refused = await run(target, "restore", inDir(file), "--identity", key);
      expect([file, refused.exitCode, refused.err]).toEqual([file, 1, expect.stringContaining(message)]);
    }
    expect((await digests(target)).collector_identity).toBe("0 ");
  });
});

describe("the file of a backup", () => {
  const manifestOf = (partitions: { name: string; bound: string }[]) => ({
    format: "svc-backup/1" as const,
    ...{ at: "2026-11-26T00:00:00Z", version: "0", tenant_id: "t", with_telemetry: false, migrations: [] },
    ...{ sequences: {}, tables: [{ name: "t", columns: ["c"], partitions }], settings: {} },
  });

  it("names no file but that of a setting, and is no statement: anybody can encrypt another one to the same recipient", async () => {
    const read = (secret: string, bound: string) => {
      const content = { manifest: manifestOf([{ name: "p", bound }]), secrets: new Map([[secret, new Uint8Array()]]) };
      const readRows = async function* () {
        yield* [];
        return 0;
      };
      return readBackup(backupEntries({ ...content, readRows }), {
        onManifest: async () => undefined,
        onTable: async () => 0,
      });
    };
    const bound = "FOR VALUES FROM ('2026-11-26 00:00:00+00') TO ('2026-11-27 00:00:00+00')";
    await expect(read("SVC_KEY_FILE", bound)).resolves.toMatchObject({ format: "svc-backup/1" });
    await expect(read("../../x_FILE", bound)).rejects.toThrow("secrets/../../x_FILE is no setting of core");
    for (const statement of ["DEFAULT; drop table person", "FOR VALUES FROM ('1') TO (current_user)"])
      await expect(read("SVC_KEY_FILE", statement)).rejects.toThrow("tables.0.partitions.0.bound");
  });

  it("holds rows in parts, and gives them back byte by byte", async () => {
    const piece = new Uint8Array(3 * 1024 * 1024).fill(0x61);
    const readRows = async function* () {
      for (let index = 0; index < 5; index++) yield piece;
      return 5;
    };
    const content = { manifest: manifestOf([]), secrets: new Map(), readRows };
    const entries = await Array.fromAsync(backupEntries(content));
    expect(entries.map(({ name }) => name)).toEqual([
      "manifest.json",
      ...["tables/t/000000", "tables/t/000001", "tables/t/000002"],
      "end.json",
    ]);
    let bytes = 0;
    await readBackup(
      (async function* () {
        yield* entries;
      })(),
      {
        onManifest: async () => undefined,
        onTable: async (_, rows) => {
          for await (const part of rows) bytes += part.length;
          return 5;
        },
      },
    );
    expect(bytes).toBe(5 * piece.length);
  });
});
