import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { describe, expect, it } from "vitest";
import { startEmbeddedPostgres } from "./embedded-postgres.ts";

const query = async (url: string, text: string): Promise<unknown[][]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text, rowMode: "array" })).rows;
  } finally {
    await client.end();
  }
};

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const gone = (pid: number) => expect.poll(() => isThere(pid)).toBe(false);

describe("embedded PostgreSQL", () => {
  it("is durable by default, speaks UTF8 with the C locale, over the socket and, with a password, over TCP", async () => {
    const server = await startEmbeddedPostgres({ tcp: true });
    try {
      const settings = ["fsync", "synchronous_commit", "server_encoding", "lc_messages"];
      const names = settings.map((name) => `current_setting('${name}')`).join(",");
      for (const url of [server.url(), server.tcpUrl()])
        expect(await query(url, `select ${names}`)).toEqual([["on", "on", "UTF8", "C"]]);
      const withoutPassword = new URL(server.tcpUrl());
      withoutPassword.password = "";
      const refused = new pg.Client({ connectionString: withoutPassword.href });
      await expect(refused.connect()).rejects.toThrow(/password/);
    } finally {
      await server.stop();
    }
    await gone(server.pid);
    expect(existsSync(decodeURIComponent(new URL(server.url()).hostname))).toBe(false);
  });

  it("keeps what was committed when started again on the same directory, also after a crash", async () => {
    const dir = await mkdtemp(join(tmpdir(), "svc-pg-test-"));
    await rm(dir, { recursive: true });
    const first = await startEmbeddedPostgres({ dataDir: dir });
    await query(first.url(), "create table kept as select 42 as answer");
    await first.stop("immediate");
    const second = await startEmbeddedPostgres({ dataDir: dir });
    expect(await query(second.url(), "select answer from kept")).toEqual([[42]]);
    await second.stop();
    await rm(dir, { recursive: true });
  });

  it("ends with its parent, even by SIGKILL, and a server left behind is replaced", async () => {
    const dir = await mkdtemp(join(tmpdir(), "svc-pg-test-"));
    await rm(dir, { recursive: true });
    const script = `
      import { startEmbeddedPostgres } from ${JSON.stringify(new URL("./embedded-postgres.ts", import.meta.url).href)};
      const server = await startEmbeddedPostgres({ dataDir: ${JSON.stringify(dir)} });
      console.log(server.pid);
      setInterval(() => {}, 1000);`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(parent.stdout, "data")) as [Buffer];
    const orphan = Number(line.toString());
    parent.kill("SIGKILL");
    const next = await startEmbeddedPostgres({ dataDir: dir });
    await gone(orphan);
    expect(next.pid).not.toBe(orphan);
    expect(await query(next.url(), "select 1")).toEqual([[1]]);
    await next.stop();
    await rm(dir, { recursive: true });
  });

  it("says in the error why a server does not start", async () => {
    await expect(startEmbeddedPostgres({ settings: { shared_buffers: "nonsense" } })).rejects.toThrow(/shared_buffers/);
  });
});
