import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { claimStore, StoreRefused } from "#functions/objects/claim-store.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { ConfigError } from "#kit/env.ts";
import { Secret } from "#kit/secret.ts";
import { createS3Model } from "#tests/fakes/s3-model.ts";
import { newFolder, whenDone } from "#tests/support/new-folder.ts";
import { checkStore, openObjectStore } from "./open-store.ts";

const needs = {
  clock: systemClock,
  entropy: systemEntropy,
  keys: {
    key: new Secret({ accessKeyId: "key-1", secretAccessKey: "secret-1" }),
    webIdentity: null,
  },
};

const startBucket = async () => {
  const model = createS3Model(systemClock);
  const server = await model.listen();
  whenDone(server.close);
  const endpoint = new URL(server.bucketUrl).origin;
  return { state: model.state, location: `s3://telemetry/fleet?endpoint=${endpoint}` };
};

const faultsOf = async (location: string) =>
  checkStore(location, needs).then(
    () => [],
    (error: ConfigError) => error.faults.map(({ variable, message }) => `${variable}: ${message}`),
  );

it("checks that core may write, list, read and delete objects, and names each missing right", async () => {
  const { state, location } = await startBucket();
  expect(await checkStore(location, needs)).toEqual([]);
  expect(state.objects.size).toBe(0);
  state.objectHeaders = { "x-amz-version-id": "1" };
  expect(await checkStore(location, needs)).toEqual([expect.stringContaining("keeps versions")]);
  for (const operation of ["LIST", "GET", "DELETE"]) state.denied.add(operation);
  const denied = (what: string, method: string) =>
    `SVC_INGEST_STORE: core cannot ${what} objects: the bucket fails ${method}: HTTP 403, AccessDenied`;
  expect(await faultsOf(location)).toEqual([
    denied("list", "GET"),
    denied("read", "GET"),
    denied("delete", "DELETE"),
  ]);
  state.denied.clear();
  state.fault = ({ operation }) => {
    if (operation === "LIST") state.unlisted = new Set(state.objects.keys());
    return null;
  };
  expect(await faultsOf(location)).toEqual([expect.stringContaining("cannot list objects")]);
  state.keys.clear();
  expect(await faultsOf(location)).toEqual([
    expect.stringContaining("cannot write objects: the bucket fails PUT: HTTP 403, InvalidAccess"),
    expect.stringContaining("cannot list objects"),
  ]);
});

it("names a CA file that cannot be read, before it connects", async () => {
  const { location } = await startBucket();
  expect(await faultsOf(`${location}&ca_file=/nowhere/ca.pem`)).toEqual([
    "SVC_INGEST_STORE: ca_file cannot be read (ENOENT)",
  ]);
});

it("checks a directory, and one that cannot be used", async () => {
  const folder = newFolder();
  expect(await checkStore(`directory:${folder}/objects`, needs)).toEqual([]);
  expect(await faultsOf(`directory:${folder}/missing/objects`)).toEqual([
    "SVC_INGEST_STORE: the directory fails: it does not exist",
  ]);
});

it("assumes the role of a workload without a key, and has no key without both", async () => {
  const { location } = await startBucket();
  const tokenFile = join(newFolder(), "token");
  writeFileSync(tokenFile, "a token\n");
  const webIdentity = { roleArn: "arn:aws:iam::1:role/core", tokenFile, url: null };
  const keyless = async (identity: typeof webIdentity | null) => {
    const url = new URL(location.slice(location.indexOf("=") + 1)).href;
    const keys = { key: null, webIdentity: identity && { ...identity, url } };
    const store = await openObjectStore(location, { ...needs, keys, callMs: 0 });
    return store.list({ prefix: "", limit: 1 });
  };
  await expect(keyless(webIdentity)).rejects.toThrow("the token service gives no key");
  await expect(keyless(null)).rejects.toThrow("core has no key: set SVC_INGEST_STORE_CREDENTIALS");
});

it("reserves a store for one database, and refuses one that has lost its mark", async () => {
  const { state, location } = await startBucket();
  const store = await openObjectStore(location, needs);
  const claim = (lineage: string, hasObjects: boolean) =>
    claimStore(store, { lineage, hasObjects });
  await claim("a", false);
  await claim("a", true);
  expect([...state.objects.keys()]).toEqual(["fleet/svc-store.json"]);
  await expect(claim("b", false)).rejects.toThrow("belongs to another database");
  state.objects.clear();
  await expect(claim("a", true)).rejects.toThrow(StoreRefused);
  await Promise.allSettled([claim("a", false), claim("b", false)]);
  const refused = await Promise.allSettled([claim("a", false), claim("b", false)]);
  expect(refused.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
});
