import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hourMs } from "#kit/clock.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { createTestCa, type TestCa, x509 } from "#scripts/lab/ca/test-pki.ts";
import { endedWith, runCollector } from "#tests/collector/support/collector-command.ts";
import {
  createRunningCollector,
  heartbeatAnswer,
  type RunningCollector,
} from "#tests/collector/support/running-collector.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { refusal } from "#tests/fakes/management-server.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openIdentityDirectory } from "../identity/identity-directory.ts";
import { createBundleRenewal } from "./bundle-renewal.ts";

/* A collector between two servers, whose authorities are both in its `ca_file`. */

let running: RunningCollector;
let next: TestCa;
beforeEach(async () => {
  [running, next] = await Promise.all([
    createRunningCollector(),
    createTestCa({ name: "Next CA" }),
  ]);
});
afterEach(() => running.stop());

const pemOf = (pem: string) => new X509Certificate(pem).toString();
const stored = async (channel: CaChannel) =>
  JSON.parse(
    await readFile(join(running.host.dir, "identity", "ca", `${channel}.json`), "utf8").catch(
      () => "null",
    ),
  );
/** Waits until the bundle of a channel has this number, and is or is not settled. */
const untilStored = (channel: CaChannel, number: number, settled = true) =>
  expect.poll(() => stored(channel)).toMatchObject({ number, settled });
const untilBothStored = async (number: number, settled = true) => {
  await untilStored("ingest", number, settled);
  await untilStored("management", number, settled);
};
const reported = () => running.heartbeats().at(-1)?.body.ca_bundles;
const fetches = (channel: CaChannel) =>
  (channel === "ingest"
    ? running.peer.posts
    : running.server.calls.filter(({ path }) => path.endsWith("/ca-bundle"))
  ).map(({ body }) => body.channel);
const warnings = () =>
  (running.heartbeats().at(-1)?.body.config as { errors: string[] } | undefined)?.errors;
const publishBoth = (ingest: string, management: string) => {
  running.publish("ingest", ingest);
  running.publish("management", management);
};
/** Ends the connections, and waits for the next stream. */
const connectedAgain = () => {
  const opened = running.peer.opens.length;
  running.peer.disconnect();
  return expect.poll(() => running.peer.opens.length).toBeGreaterThan(opened);
};
/** Waits for more than so many further heartbeats. */
const heartbeatsAfter = (count: number) => {
  const before = running.heartbeats().length;
  return expect.poll(() => running.heartbeats().length).toBeGreaterThan(before + count);
};
const connected = () => expect.poll(() => running.peer.opens.length).toBeGreaterThan(0);

describe("bundles of core", () => {
  it("are fetched over the channel of each, take effect in at most one new session each, and are settled and reported", async () => {
    publishBoth(running.host.ca.pem, running.server.caPem);
    await running.start();
    await untilBothStored(1);
    await expect.poll(reported).toEqual({ ingest: 1, management: 1, pinned: false });
    expect(running.peer.opens.length).toBeLessThanOrEqual(3);
    expect(await stored("ingest")).toMatchObject({ pem: pemOf(running.host.ca.pem), before: "" });
    expect(new Set(fetches("ingest"))).toEqual(new Set(["ingest"]));
    expect(new Set(fetches("management"))).toEqual(new Set(["management"]));
    const status = async () => {
      const { out } = await runCollector(["status", "--json", "--config", running.host.config]);
      return JSON.parse(out).trust;
    };
    await expect.poll(status).toMatchObject({
      ingest: { bundle: 1, settled: true, authorities: [{ name: "CN=Test CA" }] },
      management: { bundle: 1, settled: true, authorities: [{ name: "CN=Server CA" }] },
    });
  });

  it("renew both roots: the servers change theirs, and what the last bundle omits is not accepted any more", async () => {
    const { host, peer, server } = running;
    publishBoth(host.ca.pem + next.pem, server.caPem + next.pem);
    await running.start();
    await untilBothStored(1);
    await Promise.all([peer.present(next), server.present(next)]);
    publishBoth(next.pem, next.pem);
    await untilBothStored(2);
    await connectedAgain();
    await peer.present(host.ca);
    peer.disconnect();
    await expect.poll(() => running.log.text()).toContain("unavailable: self-signed certificate");
    const { out } = await runCollector(["diag", "--config", host.config]);
    expect(JSON.parse(out).trust.ingest.authorities).toEqual([
      { name: "CN=Next CA", not_after: "2036-01-01T00:00:00.000Z" },
    ]);
  });

  it("that lack the root that works cut nobody off, and are not settled", async () => {
    publishBoth(next.pem, next.pem);
    await running.start();
    await untilBothStored(1, false);
    await expect.poll(reported).toEqual({ ingest: 1, management: 1, pinned: false });
    await connectedAgain();
    expect(await stored("ingest")).toMatchObject({ settled: false });
    publishBoth(running.host.ca.pem, running.server.caPem);
    await untilBothStored(2);
  });

  it("cut nobody off by a root with the name of the one that works, which OpenSSL takes for it", async () => {
    const { host, server } = running;
    const impostor = await createTestCa({ name: "Test CA" });
    const unfit = await createTestCa({
      name: "Server CA",
      extensions: [
        new x509.BasicConstraintsExtension(true, undefined, true),
        new x509.Extension("1.2.3.4", true, Uint8Array.of(5, 0)),
      ],
    });
    publishBoth(impostor.pem + host.ca.pem, unfit.pem);
    await running.start();
    await untilBothStored(1, false);
    await expect.poll(reported).toEqual({ ingest: 1, management: 1, pinned: false });
    await connectedAgain();
    publishBoth(host.ca.pem, server.caPem);
    await untilBothStored(2);
  });

  it("are settled only once the servers of both channels were verified by them alone", async () => {
    running.publish("management", next.pem);
    await running.start();
    await untilStored("management", 1, false);
    running.publish("ingest", running.host.ca.pem);
    await untilStored("ingest", 1, false);
    await expect.poll(reported).toEqual({ ingest: 1, management: 1, pinned: false });
    await heartbeatsAfter(1);
    expect(await stored("ingest")).toMatchObject({ number: 1, settled: false });
    await running.server.present(next);
    running.clock.skip(hourMs);
    await untilBothStored(1);
  });

  it("that are refused are warnings, and tried again after an hour, or with another number", async () => {
    running.publish("ingest", "# no certificate\n");
    await running.start();
    const warning = "warning: CA bundle of ingest: number 1 is empty";
    await expect.poll(warnings).toEqual([warning]);
    await heartbeatsAfter(2);
    expect(fetches("ingest")).toHaveLength(1);
    running.clock.skip(hourMs);
    await expect.poll(() => fetches("ingest").length).toBe(2);
    expect(await stored("ingest")).toBeNull();
    running.publish("ingest", running.host.ca.pem);
    await untilStored("ingest", 2);
    await expect.poll(warnings).toEqual([]);
  });

  it("that a server lacks, or refuses to give, are asked for each hour", async () => {
    const numbers = { ingest: 5, management: 5 };
    running.server.reply(({ path }) =>
      path.endsWith("/ca-bundle")
        ? refusal(404, "not_found", { action: "fix_request" })
        : heartbeatAnswer({ ca_bundles: numbers }),
    );
    running.publish("ingest", running.host.ca.pem);
    await running.start();
    await untilStored("ingest", 1);
    const warning = "warning: CA bundle of management: number 5 is refused: refused: not_found";
    await expect.poll(warnings).toEqual([warning]);
    await expect.poll(() => fetches("ingest").length).toBe(2);
    await heartbeatsAfter(3);
    expect([fetches("ingest").length, fetches("management").length]).toEqual([2, 1]);
  });

  it("larger than a host takes are refused too", async () => {
    running.publish("ingest", "#".repeat(70 * 1024));
    await running.start();
    await expect
      .poll(warnings)
      .toEqual(["warning: CA bundle of ingest: number 1 is not one that a host takes"]);
  });

  it("that cannot be stored leave what counts as it is", async () => {
    await writeFile(join(running.host.dir, "identity", "ca"), "in its place");
    running.publish("ingest", running.host.ca.pem);
    await running.start();
    await expect
      .poll(warnings)
      .toContain("warning: CA bundle of ingest: number 1 cannot be stored (EEXIST)");
    await connected();
  });

  it("whose files are damaged later count until a restart, with a warning", async () => {
    const { host, peer } = running;
    running.publish("ingest", host.ca.pem + next.pem);
    await running.start();
    await untilStored("ingest", 1);
    await peer.present(next);
    await writeFile(join(host.dir, "identity", "ca", "ingest.json"), "half");
    await expect.poll(warnings).toEqual(["warning: CA bundle of ingest: its file is damaged"]);
    await connectedAgain();
  });

  it("take effect while the config on disk is invalid", async () => {
    await running.start();
    await running.configure("nonsense: 1\n");
    await expect.poll(warnings).toEqual([expect.stringContaining("nonsense")]);
    running.publish("ingest", running.host.ca.pem + next.pem);
    await untilStored("ingest", 1);
    await expect.poll(reported).toEqual({ ingest: 1, management: null, pinned: false });
    await expect.poll(warnings).toEqual([expect.stringContaining("nonsense")]);
  });

  it("come with the answers of a stream too", async () => {
    running.publish("ingest", running.host.ca.pem);
    running.peer.behaviour.answerStatus = () => ({
      nextStatusSeconds: 1,
      caBundles: { ingest: 1, management: 0 },
    });
    await running.start();
    await untilStored("ingest", 1);
    expect(running.heartbeats()).toEqual([]);
  });

  it("are taken over one connection where management is at the ingest listener", async () => {
    await running.stop();
    running = await createRunningCollector({ managementAtIngest: true });
    publishBoth(running.host.ca.pem, running.host.ca.pem);
    await running.start();
    await untilBothStored(1);
    expect(running.server.calls).toEqual([]);
  });

  it("have no numbers after trust reset, so that the next one has any, and still verify what ca_file does not", async () => {
    const { host, peer } = running;
    running.publish("ingest", host.ca.pem + next.pem, { number: 70_000 });
    await running.start();
    await untilStored("ingest", 70_000);
    await peer.present(next);
    running.publish("ingest", next.pem, { number: 80_000 });
    await expect.poll(warnings).toEqual([expect.stringMatching(/more than 1000 above 70000/)]);
    const reset = await runCollector(["trust", "reset", "--config", running.host.config]);
    expect(reset).toMatchObject(endedWith(0, "the numbers of the CA bundles are forgotten"));
    await untilStored("ingest", 80_000);
    const { code } = await runCollector(["trust", "--config", running.host.config]);
    expect(code).toBe(2);
  });

  it("do not count and are not taken where the config pins its own authorities", async () => {
    await running.stop();
    running = await createRunningCollector({ management: ", ca_pinned: true" });
    running.publish("ingest", next.pem);
    await running.start();
    await expect.poll(reported).toEqual({ ingest: null, management: null, pinned: true });
    await heartbeatsAfter(1);
    expect(fetches("ingest")).toEqual([]);
  });
});

it("fetches no bundle of a channel that the authorities of the system verify", async () => {
  const fetched: CaChannel[] = [];
  const env = createTestCollectorEnv();
  const renewal = createBundleRenewal({
    ...env,
    directory: openIdentityDirectory(newFolder(), env),
    trust: { ingest: { caFile: next.pem } },
    tries: new Map(),
    isShared: false,
    log: createTestLog(),
    signal: new AbortController().signal,
  });
  expect(renewal.authorities("management")).toBeUndefined();
  renewal.follow({ ingest: 1, management: 1 }, async (channel) => {
    fetched.push(channel);
    return null;
  });
  await renewal.idle();
  expect(fetched).toEqual(["ingest"]);
});
