/*
 * What the manifests of docs/deploy/kubernetes run, without a cluster: the init containers' commands, core with core.env, its probes, and a
 * collector with the arguments and the config of the DaemonSet (docs/install.md). Ports and absolute paths are those of the test.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { readKeyFile } from "#functions/node/config-files.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createLabPki, type LabPki } from "#scripts/lab/ca/pki.ts";
import { mintBridgeToken, people, seedPeople } from "#scripts/lab/people.ts";
import { findPorts } from "#scripts/ports.ts";
import {
  type KubernetesIssuer,
  startKubernetesIssuer,
} from "../support/access/kubernetes-issuer.ts";
import { enrollmentOf } from "../support/collector.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { newFolder } from "../support/new-folder.ts";
import {
  logged,
  type Program,
  programFile,
  startProgram,
  stopProgram,
} from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";
import { replaceTexts } from "./support/documented-block.ts";
import { containerOf, podOf, readManifests } from "./support/kubernetes-manifests.ts";

const server = readManifests("docs/deploy/kubernetes");
const corePod = podOf(server, "core");
const collectorFolder = readManifests("docs/deploy/kubernetes/collector");
const collectorPod = podOf(collectorFolder, "collector");
const isRoot = process.geteuid?.() === 0;
const acknowledgement = "I-UNDERSTAND-ROOT-MODE";
const authTokenSecret = systemEntropy.bytes(32).toHex();

const dir = newFolder();
let pki: LabPki;
let database: TestDatabase;
let cluster: KubernetesIssuer;
let core: Program;
let secondCore: Program;
let coreUrl: string;
let secondCoreUrl: string;
let ingest: string;
const inDir = (...names: string[]) => join(dir, ...names);

/** Mounts a Secret as Kubernetes does: links to files that the group can read. */
const mountSecret = (folder: string, files: Readonly<Record<string, string>>) => {
  mkdirSync(join(folder, "..2026"), { recursive: true });
  symlinkSync("..2026", join(folder, "..data"));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, "..2026", name), text);
    chmodSync(join(folder, "..2026", name), 0o440);
    symlinkSync(`..data/${name}`, join(folder, name));
  }
};

/** Runs the command of an init container: Node with a script. */
const runScript = (
  command: readonly string[] = [],
  replacements: Readonly<Record<string, string>>,
) => {
  expect(command.slice(0, 2)).toEqual(["node", "--eval"]);
  execFileSync(process.execPath, ["--eval", replaceTexts(command[2] ?? "", replacements)]);
};

beforeAll(async () => {
  pki = await createLabPki({ dir: inDir("pki") });
  database = await createTestDatabase();
  const { db, close } = database.connect();
  await seedPeople(db, Date.now());
  await close();
  mountSecret(inDir("secrets"), {
    "database-url": database.url,
    "auth-token-secret": `${authTokenSecret}\n`,
    "ops-bearer-token": "an-ops-token-of-the-test",
    "service-account.json": "{}",
    "ingest.crt": readFileSync(pki.ingest.certFile, "utf8"),
    "ingest.key": readFileSync(pki.ingest.keyFile, "utf8"),
    "enrollment-ca.crt": readFileSync(pki.enrollmentCa.certFile, "utf8"),
    "enrollment-ca.key": readFileSync(pki.enrollmentCa.keyFile, "utf8"),
  });
  mkdirSync(inDir("private"));
  const { command } = containerOf(corePod, "copy-secrets");
  // Twice: a pod that starts again finds the files of the first time.
  for (let run = 0; run < 2; run++)
    runScript(command, { "/secrets": inDir("secrets"), "/run/svc": inDir("private") });
  cluster = await startKubernetesIssuer({
    cert: readFileSync(pki.edge.certFile, "utf8"),
    key: readFileSync(pki.edge.keyFile, "utf8"),
  });
  const replacements = {
    "/run/svc": inDir("private"),
    "/run/kubernetes/ca.crt": pki.serverCaFile,
    "https://kubernetes.default.svc.cluster.local": cluster.url,
  };
  const env = Object.entries(parseEnv(readFileSync(join(server.path, "core.env"), "utf8"))).map(
    ([name, value = ""]) => [name, replaceTexts(value, replacements)] as const,
  );
  const start = () =>
    startProgram("functions/main.ts", [], {
      ...Object.fromEntries(env),
      PORT: "0",
      SVC_HTTP_HOST: "127.0.0.1",
      SVC_INGEST_GRPC_ADDR: "127.0.0.1:0",
    });
  core = start();
  const ready = await logged(core, "ready");
  coreUrl = `http://127.0.0.1:${ready.port}`;
  ingest = `127.0.0.1:${ready.ingest_port}`;
  secondCore = start();
  secondCoreUrl = `http://127.0.0.1:${(await logged(secondCore, "ready")).port}`;
});
afterAll(async () => {
  for (const program of [core, secondCore]) {
    program?.child.kill("SIGKILL");
    await program?.exited;
  }
  cluster?.close();
  await database?.drop();
});

const call = async (path: string, body?: object, as: "admin" | "auditor" = "admin") => {
  const token = await mintBridgeToken(authTokenSecret, { sub: people[as].userId, now: Date.now() });
  const response = await fetch(coreUrl + path, {
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(await response.text());
  return await response.json();
};

describe("core, as docs/deploy/kubernetes/core.yaml runs it", () => {
  it("C1: gets key files that it alone can read, which a Secret's are not", () => {
    expect(() => readKeyFile(inDir("secrets", "ingest.key"))).toThrow("open to group or world");
    for (const name of ["ingest.key", "enrollment-ca.key", "service-account.json"])
      expect(statSync(inDir("private", name)).mode & 0o777).toBe(0o600);
  });

  it.each(["startupProbe", "livenessProbe", "readinessProbe"] as const)(
    "passes its %s",
    async (name) => {
      const probe = containerOf(corePod, "core")[name];
      const response = await fetch(`${coreUrl}${probe?.httpGet?.path}`, {
        signal: AbortSignal.timeout((probe?.timeoutSeconds ?? 1) * 1000),
      });
      expect([response.status, await response.json()]).toEqual([
        200,
        expect.objectContaining({ status: "ready" }),
      ]);
    },
  );
});

describe("a collector, as docs/deploy/kubernetes/collector runs it", () => {
  const configFile = inDir("config/collector.yaml");
  const ofPod = (words: readonly string[] = []) =>
    words.map((word) => replaceTexts(word, { "/config/collector.yaml": configFile }));
  const { args: runArgs, livenessProbe } = containerOf(collectorPod, "collector");
  const startCollector = () => startProgram("collector/main.ts", ofPod(runArgs));

  it.skipIf(!isRoot)("owns the directories that Kubernetes made for root (needs root)", () => {
    const etc = inDir("etc");
    const data = inDir("var");
    for (const folder of [etc, data]) mkdirSync(folder, { mode: 0o755 });
    const { command } = containerOf(collectorPod, "own-directories");
    for (let run = 0; run < 2; run++) {
      runScript(command, { "/etc/svc-collector": etc, "/var/lib/svc-collector": data });
      for (const { uid, gid, mode } of [etc, data].map((folder) => statSync(folder)))
        expect([uid, gid, mode & 0o777]).toEqual([1000, 1000, 0o700]);
    }
  });

  const prefix = containerOf(collectorPod, "enroll")
    .args?.find((arg) => arg.startsWith("--identity-prefix="))
    ?.split("=")[1];
  const enrollAt = async (url: string, token: string, deviceId: string) => {
    const response = await fetch(`${url}/v1/collector/enroll`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(await enrollmentOf(deviceId, { prefix: prefix ?? "" })),
    });
    const { code } = await response.json();
    return { status: response.status, code, retryAfter: response.headers.get("retry-after") };
  };

  it("finds a policy in docs/enroll-kubernetes.md, whose rule names the service account of the DaemonSet", async () => {
    const [, text = ""] =
      /```yaml\n(issuer: [^`]*)```/.exec(readFileSync("docs/enroll-kubernetes.md", "utf8")) ?? [];
    const workload = parse(text);
    const { namespace } = collectorFolder.kustomization;
    const subject = `system:serviceaccount:${namespace}:${collectorPod.serviceAccountName}`;
    expect(workload.rules[0].pattern).toBe(subject);
    await call("/v1/collector/enrollment-policies", {
      name: "nodes",
      allowed_identity_prefixes: [prefix],
      reenrollment: "replace",
      workload: { ...workload, issuer: cluster.url },
    });
  });

  it("is asked to come again while the cluster's keys cannot be read", async () => {
    cluster.isDown = true;
    const token = await cluster.signPod({ node: "node-0" }, Date.now());
    const answers = [await enrollAt(coreUrl, token, "node-0")];
    cluster.isDown = false;
    answers.push(await enrollAt(coreUrl, token, "node-0"));
    expect(answers).toEqual([
      { status: 502, code: "issuer_unavailable", retryAfter: "5" },
      { status: 201, code: undefined, retryAfter: null },
    ]);
  });

  it("gets one certificate when one token comes to two cores at once, with two keys", async () => {
    const token = await cluster.signPod({ node: "node-2" }, Date.now());
    const answers = await Promise.all(
      [coreUrl, secondCoreUrl].map((url) => enrollAt(url, token, "node-2")),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, expect.toBeOneOf([401, 409])]);
    expect(await enrollAt(secondCoreUrl, token, "node-2")).toMatchObject({
      status: 401,
      code: "token_invalid",
    });
  });

  it("enrolls once, keeps its identity without a token, and sends heartbeats and telemetry", async () => {
    const { args = [] } = containerOf(collectorPod, "enroll");
    mountSecret(inDir("enrollment"), {
      token: await cluster.signPod({ node: "node-1" }, Date.now()),
    });
    for (const name of ["identity", "queue"]) mkdirSync(inDir(name), { mode: 0o700 });
    const replacements = {
      "https://core.example.com": coreUrl,
      "core-ingest.fleet.svc:8443": ingest,
      "$(NODE_NAME)": "node-1",
      "/config/server-ca.crt": pki.serverCaFile,
      "/run/enrollment": inDir("enrollment"),
      "/etc/svc-collector/identity": inDir("identity", "identity"),
      "/var/lib/svc-collector": inDir("queue"),
      "preset: containers": `preset: containers, include: ["${inDir("pods")}/*/*/*.log"]`,
    };
    const enroll = () =>
      spawnSync(
        process.execPath,
        [
          programFile("collector/main.ts"),
          ...args.map((arg) => replaceTexts(arg, replacements)),
          `--config-dir=${inDir("identity")}`,
          `--data-dir=${inDir("queue")}`,
          "--insecure-loopback-http",
          ...(isRoot ? [`--allow-root-acknowledged=${acknowledgement}`] : []),
        ],
        { encoding: "utf8" },
      );
    const first = enroll();
    expect(first.status, first.stderr).toBe(0);
    rmSync(inDir("enrollment"), { recursive: true });
    const second = enroll();
    expect(second.status, second.stderr).toBe(0);
    expect(second.stdout + second.stderr).toContain("the identity is kept");

    const [grpc, http] = await findPorts(2, systemEntropy);
    const config = replaceTexts(
      readFileSync(join(collectorFolder.path, "collector.yaml"), "utf8"),
      {
        ...replacements,
        "0.0.0.0:4317": `127.0.0.1:${grpc}`,
        "0.0.0.0:4318": `127.0.0.1:${http}`,
      },
    );
    mkdirSync(inDir("config"));
    writeFileSync(
      configFile,
      isRoot ? `run_as_root_acknowledged: ${acknowledgement}\n${config}` : config,
    );
    const collector = startCollector();
    try {
      await expect
        .poll(
          async () =>
            (await call("/v1/collector/health?device=node-1", undefined, "auditor")).items?.[0],
        )
        .toMatchObject({ identity: `${prefix}node-1`, last_heartbeat_at: expect.any(String) });
      const record = { body: { stringValue: "from a node" } };
      const sent = await fetch(`http://127.0.0.1:${http}/v1/logs`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] }),
      });
      expect(sent.status).toBe(200);
      await expect
        .poll(
          async () =>
            (await call("/v1/collector/health?device=node-1", undefined, "auditor")).items?.[0],
        )
        .toMatchObject({ last_envelope_at: expect.any(String) });
      const [node, program, ...words] = ofPod(livenessProbe?.exec?.command);
      expect([node, program]).toEqual(["node", "/opt/svc/dist/svc-collector/main.mjs"]);
      const status = spawnSync(process.execPath, [programFile("collector/main.ts"), ...words], {
        encoding: "utf8",
      });
      expect(status.status, status.stderr).toBe(0);
    } finally {
      expect(await stopProgram(collector), collector.stderr).toBe(0);
    }
  });

  /** The longer form: `SVC_KILLS=24`. */
  const kills = Number(process.env.SVC_KILLS ?? 3);
  it("Q1: neither loses nor repeats a line of pods when it is killed with kill -9, over the kubelet's rotations and deletions", async () => {
    const { sql } = database.connect();
    const countStored = async () => {
      const [row] = await sql.unsafe<{ sum: string }[]>(
        "select coalesce(sum(envelopes), 0)::text as sum from ingest_block",
      );
      return Number(row?.sum);
    };
    const findLines = async () => (await findStored(sql)).filter(({ kind }) => kind === "log_line");
    const web = inDir("pods/shop_web-7d9f_0d6a6f6e-8f5d-4c38-9d1a-2f0f5f3f0a11/nginx");
    const written: string[] = [];
    for (let round = 0; round < kills; round++) {
      const job = inDir(`pods/shop_job-${round}_7c1f6f6e-8f5d-4c38-9d1a-2f0f5f3f0a12/main`);
      const json = inDir(`docker/containers/${round}/${round}-json.log`);
      for (const folder of [web, job, dirname(json)]) mkdirSync(folder, { recursive: true });
      const before = written.length;
      const texts = Array.from({ length: 3_000 }, (_, index) => `${round} ${index}`);
      appendFileSync(join(web, "0.log"), asCri(texts.map((text) => `web ${text}`)));
      writeFileSync(json, asDocker(texts.map((text) => `job ${text}`)));
      symlinkSync(json, join(job, "0.log"));
      for (const pod of ["web", "job"])
        for (const text of texts) written.push(`${pod} ${text} out`, `${pod} ${text} err`);
      const { child, exited } = startCollector();
      await expect.poll(countStored).toBeGreaterThan(before + 1_500 * (round % 7));
      // It reads open files to their end, though the pod is deleted.
      if (round % 3 === 2) {
        await expect.poll(countStored).toBeGreaterThan(written.length - 3_000);
        for (const folder of [dirname(job), dirname(json)]) rmSync(folder, { recursive: true });
        await expect.poll(countStored).toBeGreaterThanOrEqual(written.length);
        await expect.poll(async () => (await findLines()).length).toBe(written.length);
      }
      child.kill("SIGKILL");
      await exited;
      rotate(web, round);
    }
    const stored = await findLines();
    const texts = stored.map(({ text }) => text);
    expect(texts).toHaveLength(written.length);
    expect(new Set(texts)).toEqual(new Set(written));
    const pods = stored.map(({ attributes }) => attributes["k8s.pod.name"]?.slice(0, 3));
    expect(pods).toEqual(texts.map((text) => text.slice(0, 3)));
  });
});

const time = "2026-11-30T07:00:00.000000001Z";

/** Returns lines as containerd writes them: those of stdout in two pieces, with one of stderr in between. */
const asCri = (texts: readonly string[]) =>
  texts
    .map(
      (text) => `${time} stdout P ${text}\n${time} stderr F ${text} err\n${time} stdout F  out\n`,
    )
    .join("");

const asDocker = (texts: readonly string[]) =>
  texts
    .flatMap((text) => [
      { log: text, stream: "stdout", time },
      { log: `${text} err\n`, stream: "stderr", time },
      { log: " out\n", stream: "stdout", time },
    ])
    .map((line) => `${JSON.stringify(line)}\n`)
    .join("");

/** Rotates a log as the kubelet does: compresses the file that it has rotated before, also in part, and renames the current one. */
const rotate = (folder: string, round: number) => {
  const rotated = (at: number) => join(folder, `0.log.20261130-${`${at}`.padStart(6, "0")}`);
  if (existsSync(rotated(round - 1))) {
    const packed = gzipSync(readFileSync(rotated(round - 1)));
    writeFileSync(`${rotated(round - 1)}.gz`, packed);
    writeFileSync(`${rotated(round)}.tmp`, packed.subarray(0, packed.length / 2));
    rmSync(rotated(round - 1));
  }
  if (round % 3 !== 2) renameSync(join(folder, "0.log"), rotated(round));
};

it("core, when Kubernetes ends its pod exits within the grace period", async () => {
  const { lifecycle } = containerOf(corePod, "core");
  const startedAt = performance.now();
  expect(await stopProgram(core)).toBe(0);
  const seconds =
    (performance.now() - startedAt) / 1000 + (lifecycle?.preStop?.sleep?.seconds ?? 0);
  expect(seconds).toBeLessThan(corePod.terminationGracePeriodSeconds ?? 0);
});
