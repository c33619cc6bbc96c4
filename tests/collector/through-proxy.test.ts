import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { startConnectProxy } from "../fakes/connect-proxy.ts";
import { createTestLab } from "../support/deployment/lab.ts";
import { eventually } from "../support/eventually.ts";
import { type Program, startProgram, stopProgram } from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";

/* A host that reaches core through a proxy, with the real programs. The tests build on each other, in order. */

const { dir, sql, ...lab } = await createTestLab();
const core = await lab.startCore({ SVC_HEARTBEAT_INTERVAL: "11s" });
const edge = await lab.startEdge(core);
await lab.writeToken(core);
const proxy = await startConnectProxy({ credentials: "host-1:first-password" });
const host = lab.createHost("host-1", edge, core);
const config = join(host.configDir, "collector.yaml");
const credentialsFile = join(dir, "proxy-credentials");
const ingest = `localhost:${core.ingestPort}`;
const runs: Program[] = [];

const start = (variables: Record<string, string> = {}) => {
  const run = startProgram("collector/main.ts", ["run", "--config", config], variables);
  runs.push(run);
  return run;
};
afterAll(async () => {
  for (const run of runs) if (!run.hasExited) await stopProgram(run);
  await proxy.close();
});
const setCredentials = (password: string) =>
  writeFile(credentialsFile, `host-1:${password}\n`, { mode: 0o600 });
const status = async () => {
  const asked = startProgram("collector/main.ts", ["status", "--json", "--config", config]);
  await asked.exited;
  return asked.records[0];
};
const written: string[] = [];
/** Writes lines that do not compress. */
const write = async (lines: number) => {
  const more = Array.from(
    { length: lines },
    (_, index) => `${written.length + index} ${randomBytes(500).toString("base64")}`,
  );
  written.push(...more);
  await host.write(...more);
};
const untilStored = () =>
  eventually(async () => {
    const stored = await findStored(sql);
    expect(stored.map(({ text }) => text.split(" ")[1])).toEqual(
      written.map((line) => line.split(" ")[0]),
    );
  });
const tunnelsTo = (authority: string) =>
  proxy.requests.filter((request) => request.authority === authority).length;

it("enrolls, forwards, sends heartbeats and renews through the proxy", async () => {
  await setCredentials("first-password");
  await host.enroll("--proxy", proxy.url, "--proxy-credentials-file", credentialsFile);
  const edgeAuthority = new URL(edge.url).host;
  expect(proxy.requests.map(({ authority }) => authority)).toEqual([edgeAuthority]);
  await host.tail();
  start();
  await write(10);
  await untilStored();
  expect(tunnelsTo(ingest)).toBe(1);
  await expect.poll(status).toMatchObject({
    forwarder: { connected: true },
    heartbeat: { last_success_at: expect.any(String) },
    routes: {
      ingest: `through the proxy localhost:${proxy.port}`,
      management: `through the proxy localhost:${proxy.port}`,
    },
  });
  const before = tunnelsTo(edgeAuthority);
  await host.renew();
  expect(tunnelsTo(edgeAuthority)).toBe(before + 1);
  await expect.poll(host.hasPendingPromotion).toBe(false);
  await write(10);
  await untilStored();
});

it("loses no record and sends none twice when the proxy cuts in mid-block, again and again", async () => {
  for (const bytes of [3_000, 70_000, 200_000]) {
    const before = tunnelsTo(ingest);
    proxy.cutAfter(bytes);
    await write(1_000);
    await untilStored();
    expect(tunnelsTo(ingest)).toBeGreaterThan(before);
  }
});

it("names credentials that the proxy rejects, and takes new ones from their file without a restart", async () => {
  proxy.demand("host-1:second-password");
  proxy.closeTunnels();
  await write(10);
  await expect.poll(status).toMatchObject({
    forwarder: {
      last_error: `unavailable: the proxy localhost:${proxy.port} rejects these credentials (HTTP 407): correct proxy.credentials_file`,
    },
  });
  await setCredentials("second-password");
  await untilStored();
});

it("E12: shows the credentials of the proxy nowhere", async () => {
  const diag = startProgram("collector/main.ts", ["diag", "--json", "--config", config]);
  await diag.exited;
  const shown = [
    await status(),
    diag.records,
    runs.map(({ records, stderr }) => [records, stderr]),
  ];
  expect(JSON.stringify(shown)).toContain(`through the proxy localhost:${proxy.port}`);
  expect(JSON.stringify(shown)).not.toMatch(/(first|second)-password|aG9zdC0x/);
  expect(await readFile(config, "utf8")).not.toMatch(/(first|second)-password/);
});

it("goes the way of the environment only if its config says so, and says when it does not", async () => {
  for (const run of runs) expect(await stopProgram(run), run.stderr).toBe(0);
  await host.edit(["proxy"], "environment");
  const before = tunnelsTo(ingest);
  start({ HTTPS_PROXY: `http://host-1:second-password@localhost:${proxy.port}` });
  await write(10);
  await untilStored();
  expect(tunnelsTo(ingest)).toBe(before + 1);
  await writeFile(config, (await readFile(config, "utf8")).replace(/^proxy: .*\n/m, ""));
  await expect.poll(status).toMatchObject({
    forwarder: { connected: true },
    routes: {
      ingest: "direct",
      management: "direct",
      note: "HTTPS_PROXY is set and not used: proxy is not configured",
    },
  });
  await write(10);
  await untilStored();
  expect(tunnelsTo(ingest)).toBe(before + 1);
});
