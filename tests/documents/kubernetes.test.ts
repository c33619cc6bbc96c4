import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempDisposableSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { describe, expect, it } from "vitest";
import { parseFlags } from "#collector/commands/command.ts";
import { enrollFlags } from "#collector/commands/enroll-options.ts";
import { parseCoreConfig } from "#functions/config/core-config.ts";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import { parseWebConfig } from "#ui/bff/config.ts";
import { createBlockRunner } from "./support/documented-block.ts";
import {
  containerOf,
  type ManifestData,
  podOf,
  readManifests,
  unknownKeys,
  validateManifest,
} from "./support/kubernetes-manifests.ts";

const root = new URL("../..", import.meta.url).pathname;
const server = readManifests("docs/deploy/kubernetes");
const collector = readManifests("docs/deploy/kubernetes/collector");
const folders = [server, collector];
const manifests = folders.flatMap(({ path, data }) =>
  data.map((manifest) => ({
    name: `${path}: ${manifest.kind} ${manifest.metadata?.name}`,
    manifest,
  })),
);
const pods = [
  { name: "core", image: "svc-core", pod: podOf(server, "core"), shutdownSeconds: 11 },
  { name: "web", image: "svc-web", pod: podOf(server, "web"), shutdownSeconds: 10 },
  {
    name: "collector",
    image: "svc-collector",
    pod: podOf(collector, "collector"),
    shutdownSeconds: 10,
  },
];

describe("the manifests of docs/deploy/kubernetes", () => {
  it.each(manifests)("match Kubernetes' schema: $name", ({ manifest }) =>
    validateManifest(manifest),
  );

  it("have no key that Kubernetes does not know", () => {
    expect(unknownKeys(manifests.map(({ manifest }) => manifest))).toBe("");
    const typo = structuredClone(
      server.data.find(({ kind }) => kind === "Deployment"),
    ) as ManifestData;
    Object.assign(podOf({ ...server, data: [typo] }, "core").containers[0] ?? {}, {
      readynessProbe: {},
    });
    expect(unknownKeys([typo])).toContain("readynessProbe");
  });

  it("run images of this version, which a Dockerfile of this repository builds", () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    const dockerfiles = ["Dockerfile.core", "Dockerfile.web"]
      .map((path) => readFileSync(path, "utf8"))
      .join();
    const images = folders.flatMap(({ kustomization }) => kustomization.images);
    expect(images.map(({ name, newTag }) => `${name}:${newTag}`)).toEqual(
      pods.map(({ image }) => `${image}:${version}`),
    );
    for (const { name, pod, image } of pods) {
      for (const container of [...pod.containers, ...(pod.initContainers ?? [])])
        expect(container.image).toBe(image);
      expect([name, dockerfiles.includes(`title="${image}"`)]).toEqual([name, true]);
    }
  });

  it.each(pods)(
    "confine $name: no root, no writable root, no capability, bounded memory",
    ({ name, pod }) => {
      expect(pod).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true },
      });
      for (const container of [...pod.containers, ...(pod.initContainers ?? [])]) {
        const { securityContext, resources } = container;
        const mayChown = name === "collector" && container.name === "own-directories";
        expect(securityContext).toMatchObject({
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
        });
        expect(securityContext?.capabilities).toEqual({
          drop: ["ALL"],
          ...(mayChown ? { add: ["CHOWN"] } : {}),
        });
        expect(securityContext?.runAsUser).toBe(mayChown ? 0 : undefined);
        expect(resources?.limits?.memory).toBeDefined();
      }
    },
  );

  it.each(pods)("give $name the time that it needs to stop", ({ name, pod, shutdownSeconds }) => {
    const sleep = containerOf(pod, name).lifecycle?.preStop?.sleep?.seconds ?? 0;
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(sleep + shutdownSeconds);
  });

  it("probe a port of the collector that exists", () => {
    const { ports, readinessProbe } = containerOf(podOf(collector, "collector"), "collector");
    expect(ports?.map(({ name }) => name)).toContain(readinessProbe?.tcpSocket?.port);
  });

  it.each(["core", "web"])("probe routes and ports of %s that exist", (name) => {
    const container = containerOf(podOf(server, name), name);
    const { livenessProbe, readinessProbe, startupProbe = livenessProbe } = container;
    const routes = readFileSync(
      name === "core" ? "functions/ops/index.ts" : "ui/bff/app.ts",
      "utf8",
    );
    for (const probe of [livenessProbe, readinessProbe, startupProbe]) {
      expect(routes).toContain(`"${probe?.httpGet?.path}"`);
      expect(container.ports?.map((port) => port.name)).toContain(probe?.httpGet?.port);
    }
  });
});

describe("the references of docs/deploy/kubernetes", () => {
  interface Selector {
    matchLabels?: Record<string, string> | undefined;
  }
  interface Peer {
    podSelector?: Selector | undefined;
    namespaceSelector?: Selector | undefined;
  }
  const byNamespace = new Map(folders.map((folder) => [folder.kustomization.namespace, folder]));
  const namespaceLabel = "kubernetes.io/metadata.name";
  /** Returns the port names of the pods that a peer selects; undefined for pods that are not in the manifests. */
  const portsOf = (own: string, { podSelector, namespaceSelector }: Peer) => {
    const folder = byNamespace.get(namespaceSelector?.matchLabels?.[namespaceLabel] ?? own);
    const name = podSelector?.matchLabels?.["app.kubernetes.io/name"];
    if (folder === undefined || name === undefined) return undefined;
    return containerOf(podOf(folder, name), name).ports?.map((port) => port.name);
  };
  const namesOf = (ports: readonly { port?: string | number }[] | undefined) =>
    (ports ?? []).flatMap(({ port }) => (typeof port === "string" ? [port] : []));

  it.each(folders)(
    "let services and policies of $path name pods and ports that exist",
    ({ kustomization, data }) => {
      const { namespace } = kustomization;
      let named = 0;
      const check = (peer: Peer, ports: readonly string[]) => {
        named += ports.length;
        for (const port of ports) expect(portsOf(namespace, peer)).toContain(port);
      };
      for (const manifest of data) {
        if (manifest.kind === "Service")
          check(
            { podSelector: { matchLabels: manifest.spec?.selector } },
            (manifest.spec?.ports ?? []).map(({ targetPort }) => String(targetPort)),
          );
        if (manifest.kind !== "NetworkPolicy" || manifest.spec === undefined) continue;
        const { podSelector, ingress = [], egress = [] } = manifest.spec;
        for (const { ports } of ingress) check({ podSelector }, namesOf(ports));
        for (const { to = [], ports } of egress) for (const peer of to) check(peer, namesOf(ports));
      }
      expect(named).toBeGreaterThan(3);
    },
  );

  it("deny what no policy allows, and let the ingress lead to services that exist", () => {
    for (const { data } of folders) {
      const policies = data.filter((manifest) => manifest.kind === "NetworkPolicy");
      const all = policies.find(({ metadata }) => metadata?.name === "deny-all");
      expect(all?.spec).toEqual({ podSelector: {}, policyTypes: ["Ingress", "Egress"] });
    }
    const rules = server.data.flatMap((manifest) =>
      manifest.kind === "Ingress" ? (manifest.spec?.rules ?? []) : [],
    );
    const backends = rules.flatMap(
      ({ http }) => http?.paths.map(({ backend }) => backend.service) ?? [],
    );
    expect(backends.map((service) => `${service?.name}:${service?.port?.name}`)).toEqual([
      "web:http",
      "core:http",
    ]);
    for (const service of backends)
      expect(
        server.data.some(
          ({ kind, metadata }) => kind === "Service" && metadata?.name === service?.name,
        ),
      ).toBe(true);
  });
});

describe("the settings of docs/deploy/kubernetes", () => {
  const readFile = (path: string) =>
    path.endsWith("database-url")
      ? "postgres://svc@db.example.net/svc"
      : `a secret of more than 32 bytes in ${path}`;
  const readEnv = (name: string) =>
    parseEnv(readFileSync(join(server.path, `${name}.env`), "utf8"));
  const portsOf = (name: string) =>
    containerOf(podOf(server, name), name).ports?.map(({ containerPort }) => containerPort);

  it("are valid, and name the ports of the pods", () => {
    const core = parseCoreConfig(readEnv("core"), readFile);
    expect(core.warnings).toEqual([]);
    expect([core.config.port, core.config.ingest?.port]).toEqual(portsOf("core"));
    const web = parseWebConfig(readEnv("web"), readFile);
    expect(web.warnings).toEqual([]);
    expect([web.config.port]).toEqual(portsOf("web"));
    expect(readEnv("web").SVC_TENANT_ID).toBe(readEnv("core").SVC_TENANT_ID);
    expect(readEnv("web").SVC_API_URL).toBe(`http://core:${core.config.port}/v1`);
  });

  it.each(["core", "web"])("name only files of the Secret of %s", (name) => {
    const secret = server.kustomization.secretGenerator?.find((entry) => entry.name === name);
    const keys = secret?.files.map((file) => file.split("=")[0]?.split("/").at(-1));
    const named = Object.entries(readEnv(name)).filter(([variable]) => variable.endsWith("_FILE"));
    expect(named.map(([, path]) => path).every((path) => path?.startsWith("/run/svc/"))).toBe(true);
    expect([...new Set(named.map(([, path]) => path?.replace("/run/svc/", "")))].sort()).toEqual(
      keys?.sort(),
    );
    const pod = podOf(server, name);
    expect(pod.volumes?.find((volume) => volume.name === "secrets")?.secret?.secretName).toBe(name);
    expect(containerOf(pod, name).envFrom).toEqual([{ configMapRef: { name } }]);
  });

  it.each(["core", "web"])(
    "reach %s whole: every variable of its env file, and nothing beside them",
    (name) => {
      const generated = server.kustomization.configMapGenerator.find(
        (entry) => entry.name === name,
      );
      expect(generated).toEqual({ name, envs: [`${name}.env`] });
      const { env, envFrom } = containerOf(podOf(server, name), name);
      expect({ env, envFrom }).toEqual({ env: undefined, envFrom: [{ configMapRef: { name } }] });
    },
  );

  it("let no revoked host forward", () => {
    expect(parseCoreConfig(readEnv("core"), readFile).config.ingest?.requireEnrollment).toBe(true);
  });

  it("configure the collector and its enrollment", () => {
    const parsed = parseCollectorConfig(
      readFileSync(join(collector.path, "collector.yaml"), "utf8"),
    );
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.errors));
    const args = containerOf(podOf(collector, "collector"), "enroll").args ?? [];
    expect(args[0]).toBe("enroll");
    const flags = parseFlags(enrollFlags, args.slice(1));
    expect(flags.ingest).toBe(parsed.config.forwarder.endpoint);
  });
});

it("docs/install.md makes every file that the kustomizations name; kubectl builds both", ({
  skip,
}) => {
  using folder = mkdtempDisposableSync(join(tmpdir(), "kubernetes-"));
  const work = folder.path;
  const fleet = join(work, "fleet");
  writeFileSync(join(work, "service-account.json"), "{}");
  const run = createBlockRunner(work);
  const env = {
    FLEET: fleet,
    SERVICE_ACCOUNT: join(work, "service-account.json"),
    DATABASE_URL: "postgres://svc:secret@db/svc",
    WEB_DATABASE_URL: "postgres://svc_web:secret@db/svc",
    IDP_CLIENT_SECRET: "secret",
  };
  expect(run("docs/install.md", "cp -R docs/deploy/kubernetes", { env, cwd: root })).toMatchObject({
    status: 0,
  });
  const { secretGenerator = [] } = server.kustomization;
  for (const file of secretGenerator.flatMap(({ files }) => files))
    expect([file, existsSync(join(fleet, file.split("=").at(-1) ?? ""))]).toEqual([file, true]);
  for (const { files = [] } of collector.kustomization.configMapGenerator)
    for (const file of files)
      expect([file, existsSync(join(fleet, "collector", file))]).toEqual([file, true]);
  if (spawnSync("kubectl", ["version", "--client"]).status !== 0)
    skip("kubectl is not installed: kustomize is not run");
  for (const folder of [fleet, join(fleet, "collector")]) {
    const built = execFileSync("kubectl", ["kustomize", folder], { encoding: "utf8" });
    expect(built).toContain("image: registry.example.com/svc-");
    expect(built).not.toMatch(/image: svc-|secretName: (core|web|edge)$/m);
  }
});
