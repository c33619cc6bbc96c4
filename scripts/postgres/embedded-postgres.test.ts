import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import pg from "pg";
import { expect, it } from "vitest";
import { startEmbeddedPostgres } from "./embedded-postgres.ts";

const query = async (url: string, text: string) => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text, rowMode: "array" })).rows;
  } finally {
    await client.end();
  }
};

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const expectExit = (pid: number) => expect.poll(() => isAlive(pid)).toBe(false);

it("is durable by default, has UTF8 and the C locale, and listens on a socket and, with a password, on TCP", async () => {
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
  await expectExit(server.pid);
  expect(existsSync(decodeURIComponent(new URL(server.url()).hostname))).toBe(false);
});

it("restarts at the same address after a crash and a shutdown, and keeps what was stored", async () => {
  const server = await startEmbeddedPostgres();
  try {
    await query(server.url(), "create table kept (n int)");
    const first = server.pid;
    await server.restart();
    await expectExit(first);
    await query(server.url(), "insert into kept values (1)");
    expect(await query(server.url(), "select n from kept")).toEqual([[1]]);
    await server.restart({ mode: "fast" });
    expect(await query(server.url(), "select n from kept")).toEqual([[1]]);
  } finally {
    await server.stop("immediate");
  }
  await expectExit(server.pid);
  expect(existsSync(decodeURIComponent(new URL(server.url()).hostname))).toBe(false);
});

it("ends with its parent, even after SIGKILL, and removes its files", async () => {
  const script = `
      import { startEmbeddedPostgres } from ${JSON.stringify(new URL("./embedded-postgres.ts", import.meta.url).href)};
      const server = await startEmbeddedPostgres();
      console.log(JSON.stringify([server.pid, server.url()]));
      setInterval(() => {}, 1000);`;
  const parent = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(parent.stdout, "data");
  const [pid, url] = JSON.parse(line.toString());
  expect(await query(url, "select 1")).toEqual([[1]]);
  parent.kill("SIGKILL");
  await expectExit(pid);
  await expect.poll(() => existsSync(decodeURIComponent(new URL(url).hostname))).toBe(false);
});

it("reports why a server does not start", async () => {
  await expect(startEmbeddedPostgres({ settings: { shared_buffers: "nonsense" } })).rejects.toThrow(
    /shared_buffers/,
  );
});
