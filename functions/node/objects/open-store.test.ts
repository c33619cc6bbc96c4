import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
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
  retentionDays: 30,
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
  mkdirSync(join(folder, "open"));
  chmodSync(join(folder, "open"), 0o770);
  writeFileSync(join(folder, "file"), "");
  symlinkSync("circle", join(folder, "circle"));
  symlinkSync("nothing", join(folder, "dangling"));
  symlinkSync("objects", join(folder, "link"));
  expect(await checkStore(`directory:${folder}/link`, needs)).toEqual([]);
  const said: Record<string, string> = {
    "missing/objects": "the folder that the directory is to be in does not exist",
    file: "the directory fails: it is a file, or its path has one",
    "file/objects": "the directory fails: it is a file, or its path has one",
    circle: "the directory fails: its path has symbolic links in a circle",
    dangling: "the directory fails: it does not exist, or is a link to what does not exist",
    open: "group or world may write the directory: chmod go-w",
  };
  for (const [path, fault] of Object.entries(said))
    expect([path, await faultsOf(`directory:${folder}/${path}`)]).toEqual([
      path,
      [`SVC_INGEST_STORE: ${fault}`],
    ]);
});

it.runIf(process.getuid?.() === 0)("names the owner of a directory of another user", async () => {
  const folder = newFolder();
  chownSync(folder, 65534, 65534);
  expect(await faultsOf(`directory:${folder}`)).toEqual([
    "SVC_INGEST_STORE: the directory belongs to the user 65534, and core runs as 0: run core as its owner, or change that",
  ]);
  chownSync(folder, 0, 0);
});

/** Returns a lifecycle rule. */
const rule = (elements: string, id = "r") =>
  `<Rule><ID>${id}</ID><Status>Enabled</Status>${elements}</Rule>`;
const expires = (days: number) => `<Expiration><Days>${days}</Days></Expiration>`;
const within = (prefix: string) => `<Filter><Prefix>${prefix}</Prefix></Filter>`;

it("warns of versions, locks and rules that move objects", async () => {
  const { state, location } = await startBucket();
  const warnings = async (lifecycle: string) => {
    state.settings.set("lifecycle", lifecycle);
    return checkStore(location, needs);
  };
  state.settings.set("versioning", "<Status>Suspended</Status>");
  expect(await warnings(rule(expires(1) + within("fleet/other/")))).toEqual([]);
  state.settings.set("versioning", "<Status>Enabled</Status>");
  state.settings.set(
    "object-lock",
    "<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>7</Days></DefaultRetention></Rule>",
  );
  const moves = (days: number, storage: string) =>
    `<Transition><Days>${days}</Days><StorageClass>${storage}</StorageClass></Transition>`;
  const cold = moves(10, "STANDARD_IA") + moves(90, "GLACIER");
  expect(await warnings(rule(cold, "cold"))).toEqual([
    "the bucket keeps versions: objects that core deletes still use space",
    "the bucket locks objects for 7 days (GOVERNANCE): until then, what core deletes still uses space, or its deletion is refused",
    'the lifecycle rule "cold" moves objects to STANDARD_IA after 10 days, before SVC_INGEST_RETENTION_DAYS have passed: reading and deleting them may cost more',
  ]);
  state.settings.clear();
  expect(await warnings("<Rule><Action><Delete/></Action></Rule>")).toEqual([
    expect.stringContaining("core does not know the form of the lifecycle rule"),
  ]);
});

it("refuses a rule that deletes or archives telemetry before its retention, or the mark of the store", async () => {
  const { state, location } = await startBucket();
  const faults = async (...rules: string[]) => {
    state.settings.set("lifecycle", rules.join(""));
    const found = await faultsOf(location);
    return found.map((fault) => fault.replace(/^SVC_INGEST_STORE: the lifecycle rule /, ""));
  };
  const lost =
    "deletes objects after 30 days, before SVC_INGEST_RETENTION_DAYS have passed: telemetry is lost";
  expect(await faults(rule(expires(30), "all"))).toEqual([`"all" ${lost}`]);
  expect(
    await faults(
      rule(expires(30) + within("fleet/o/0/"), "a"),
      rule(expires(30) + within("fl"), "b"),
    ),
  ).toEqual([`"a" ${lost}`, `"b" ${lost}`]);
  expect(await faults(rule(expires(31) + within("fleet/o/")))).toEqual([]);
  expect(await faults(rule(expires(31)))).toEqual([
    '"r" deletes svc-store.json after 31 days: core then does not start; limit it to fleet/o/',
  ]);
  expect(await faults(rule("<Expiration><Date>2027-01-01T00:00:00Z</Date></Expiration>"))).toEqual([
    '"r" deletes objects from 2027-01-01T00:00:00Z on, before SVC_INGEST_RETENTION_DAYS have passed: telemetry is lost',
  ]);
  expect(
    await faults(
      rule("<Transition><Days>0</Days><StorageClass>GLACIER</StorageClass></Transition>"),
    ),
  ).toEqual([expect.stringContaining("moves objects to GLACIER after 0 days")]);
  // None of these is about core's objects as they are.
  expect(
    await faults(
      rule(`<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>${expires(1)}`),
      rule(
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
      ),
      rule("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"),
      rule(
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
      ),
      rule(expires(1)).replace("Enabled", "Disabled"),
    ),
  ).toEqual([]);
});

it("says in a line which settings it could not read, and which right would help", async () => {
  const { state, location } = await startBucket();
  state.denied.add("versioning").add("lifecycle");
  state.unimplemented.add("object-lock");
  const unread = (what: string, right: string) =>
    `core could not check the bucket's ${what}: the bucket fails GET: HTTP 403, AccessDenied (the right s3:${right} helps)`;
  expect(await checkStore(location, needs)).toEqual([
    unread("versioning", "GetBucketVersioning"),
    "core could not check the bucket's object-lock: its server does not know that",
    unread("lifecycle", "GetLifecycleConfiguration"),
  ]);
  state.hasSettings = false;
  const other = expect.stringContaining("its server returns something else");
  expect(await checkStore(location, needs)).toEqual([other, other, other]);
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
