/* The charts of docs/deploy/charts as helm renders them. tests/documents/kubernetes-run.test.ts runs what the manifests that they are made of run. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { beforeEach, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { parseCoreConfig } from "#functions/config/core-config.ts";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import { parseWebConfig } from "#ui/bff/config.ts";
import {
  containerOf,
  kubernetesVersions,
  type ManifestData,
  podOf,
  readManifests,
  unknownKeys,
} from "./support/kubernetes-manifests.ts";

const charts = "docs/deploy/charts";
const helm = (...args: string[]) => spawnSync("helm", args, { encoding: "utf8" });
const hasHelm = helm("version").status === 0;
beforeEach(({ skip }) => {
  if (!hasHelm) skip("helm is not installed: the charts are not rendered");
});

/** A resource: those of other programs' kinds, ConfigMaps and Secrets too. */
interface Resource {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  spec?: unknown;
}

const render = (chart: "fleet" | "collector", ...sets: string[]) => {
  const own = chart === "collector" ? ["serverCa=PEM", ...sets] : sets;
  const { status, stdout, stderr } = helm(
    "template",
    "release",
    `${charts}/${chart}`,
    ...own.flatMap((set) => ["--set", set]),
  );
  if (status !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout).flatMap((document) => document.toJS() ?? []);
};
const dataOf = (resources: readonly Resource[], name: string) =>
  resources.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === name)?.data ??
  {};
const manifestsIn = (resources: readonly Resource[]) =>
  resources.filter(
    ({ apiVersion }) => !/monitoring\.coreos|external-secrets/.test(apiVersion),
  ) as ManifestData[];
const readFile = (path: string) =>
  path.endsWith("database-url")
    ? "postgres://svc@db.example.net/svc"
    : path.replaceAll(/\W/g, "_").padEnd(40, "_");

/** A resource without what a chart chooses beside the manifests: the versions of images, the checksum of settings, the class of the ingress. */
const plain = (resource: unknown) =>
  JSON.parse(
    JSON.stringify(resource, (key, value) =>
      key === "ingressClassName" ||
      (key === "annotations" && Object.keys(value).join() === "checksum/config")
        ? undefined
        : key === "image"
          ? String(value).replace(/^registry\.example\.com\/(svc-\w+):\d+\.\d+\.\d+$/, "$1")
          : value,
    ),
  );

describe.each([
  ["fleet", "docs/deploy/kubernetes"],
  ["collector", "docs/deploy/kubernetes/collector"],
] as const)("the chart %s", (chart, folder) => {
  it("installs what the manifests install", () => {
    const rendered = render(chart);
    const expected = readManifests(folder).data.filter(({ kind }) => kind !== "Namespace");
    for (const manifest of expected) {
      const same = rendered.find(
        ({ kind, metadata }) => kind === manifest.kind && metadata.name === manifest.metadata?.name,
      );
      expect(plain(same)).toEqual(plain(manifest));
    }
    const settings = rendered.filter(({ kind }) => kind === "ConfigMap");
    expect(rendered).toHaveLength(expected.length + settings.length);
  });

  it.each(kubernetesVersions)(
    "has no key that Kubernetes %s does not know, with every value that adds some",
    (version) => {
      const sets = ["images.pullSecrets[0].name=pull", "networkPolicies.enabled=true"];
      const more = [
        "monitoring.enabled=true",
        "externalSecrets.enabled=true",
        "ingest.networks[0]=192.0.2.0/24",
        "ingress.annotations.a=b",
      ];
      const added = chart === "fleet" ? more : ["config.sources[0].pod_labels[0]=app"];
      const rendered = manifestsIn(render(chart, ...sets, ...added));
      expect(rendered.length).toBeGreaterThan(4);
      expect(unknownKeys(rendered, version)).toBe("");
    },
  );

  it("is of this version, and runs images by digest when it is given one", () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    expect(parse(readFileSync(`${charts}/${chart}/Chart.yaml`, "utf8"))).toMatchObject({
      version,
      appVersion: version,
    });
    const name = chart === "fleet" ? "core" : "collector";
    const digest = `sha256:${"0".repeat(64)}`;
    const data = manifestsIn(
      render(chart, `images.digests.${name}=${digest}`, "images.registry=r.example"),
    );
    expect(containerOf(podOf({ data }, name), name).image).toBe(`r.example/svc-${name}@${digest}`);
  });

  it("refuses a value that it does not know, by name", () => {
    expect(() => render(chart, "imagse.registry=r.example")).toThrow("imagse");
  });
});

describe("the settings of the chart fleet", () => {
  it.each([
    ["google", [], "service-account.json"],
    ["scim", ["directory.scimSubject=id"], "scim-token"],
    ["file", [], "directory.yaml"],
  ] as const)(
    "are valid with the directory %s, and external secrets hold each of their files",
    (provider, sets, file) => {
      const resources = render(
        "fleet",
        `directory.provider=${provider}`,
        "externalSecrets.enabled=true",
        ...sets,
      );
      const core = dataOf(resources, "core");
      expect(parseCoreConfig(core, readFile).warnings).toEqual([]);
      const secret = resources.find(
        ({ kind, metadata }) => kind === "ExternalSecret" && metadata.name === "core",
      );
      const { data } = {
        data: [],
        ...(secret?.spec as { data?: { secretKey: string; remoteRef: { key: string } }[] }),
      };
      const files = Object.values(core).flatMap((value) =>
        value.startsWith("/run/svc/") ? [value.slice(9)] : [],
      );
      expect(data.map(({ secretKey }) => secretKey)).toEqual([...new Set(files)].sort());
      expect(data).toContainEqual({ secretKey: file, remoteRef: { key: `fleet/core/${file}` } });
    },
  );

  it("trust the cluster's tokens for the name of core that the collector's chart asks tokens for", () => {
    const audience = "https://c.example.com";
    const core = dataOf(render("fleet", "coreHost=c.example.com"), "core");
    expect(parse(core.SVC_WORKLOAD_ISSUERS ?? "")).toMatchObject({ issuers: [{ audience }] });
    const pod = podOf(
      { data: manifestsIn(render("collector", "coreHost=c.example.com")) },
      "collector",
    );
    const projected =
      pod.volumes?.find(({ name }) => name === "enrollment")?.projected?.sources ?? [];
    expect(projected.map(({ serviceAccountToken }) => serviceAccountToken?.audience)).toEqual([
      audience,
    ]);
  });

  it("hold any identity provider, names and more variables, and restart the pods when they change", () => {
    const sets = [
      "identityProvider.issuer=https://id.example.com/realms/ops",
      "fleetHost=f.example.com",
      "web.env.IDP_SCOPES=openid",
    ];
    const before = render("fleet");
    const after = render("fleet", ...sets);
    const web = dataOf(after, "web");
    expect(web).toMatchObject({
      WEBAUTH_URL: "https://f.example.com",
      IDP_ISSUER: "https://id.example.com/realms/ops",
      IDP_SCOPES: "openid",
    });
    expect(parseWebConfig({ ...dataOf(before, "web") }, readFile).warnings).toEqual([]);
    const checksum = (resources: readonly Resource[], name: string) => {
      const found = manifestsIn(resources).find(
        ({ kind, metadata }) => kind === "Deployment" && metadata?.name === name,
      );
      return found?.kind === "Deployment"
        ? found.spec?.template.metadata?.annotations?.["checksum/config"]
        : undefined;
    };
    expect(checksum(before, "web")).toMatch(/^[0-9a-f]{64}$/);
    expect(checksum(after, "web")).not.toEqual(checksum(before, "web"));
    expect(checksum(after, "core")).toEqual(checksum(before, "core"));
  });

  it("scrape core with the token of its Secret, and bring the alerts and the dashboard as they are", () => {
    const resources = render("fleet", "monitoring.enabled=true", "core.secret=other");
    const of = (kind: string) => resources.find((resource) => resource.kind === kind)?.spec;
    expect(of("PrometheusRule")).toEqual(
      parse(readFileSync("docs/deploy/monitoring/alerts.yaml", "utf8")),
    );
    expect(of("ServiceMonitor")).toMatchObject({
      selector: { matchLabels: { "app.kubernetes.io/name": "core" } },
      endpoints: [
        {
          port: "http",
          authorization: { credentials: { name: "other", key: "ops-bearer-token" } },
        },
      ],
    });
    expect(dataOf(resources, "fleet-dashboard")["fleet.json"]).toBe(
      readFileSync("docs/deploy/monitoring/dashboard.json", "utf8"),
    );
  });
});

describe("the settings of the chart collector", () => {
  it("are a valid config, the one of the manifests", () => {
    const text = dataOf(render("collector"), "collector")["collector.yaml"] ?? "";
    const parsed = parseCollectorConfig(text);
    expect(parsed.ok).toBe(true);
    expect(parse(text)).toEqual(
      parse(readFileSync("docs/deploy/kubernetes/collector/collector.yaml", "utf8")),
    );
  });

  it("give a right to read pods, and a token for it, only where a source asks for labels", () => {
    const asking = render("collector", "config.sources[0].pod_labels[0]=app");
    const role = asking.find(({ kind }) => kind === "ClusterRole");
    expect(role.rules).toEqual([{ apiGroups: [""], resources: ["pods"], verbs: ["list"] }]);
    expect(asking.find(({ kind }) => kind === "ClusterRoleBinding")).toMatchObject({
      roleRef: { name: role.metadata.name },
      subjects: [{ kind: "ServiceAccount", name: "collector", namespace: "default" }],
    });
    const volumesOf = (resources: readonly Resource[]) => {
      const pod = podOf({ data: manifestsIn(resources) }, "collector");
      expect(pod.automountServiceAccountToken).toBe(false);
      return containerOf(pod, "collector").volumeMounts?.map(({ mountPath }) => mountPath);
    };
    const directory = "/var/run/secrets/kubernetes.io/serviceaccount";
    expect(volumesOf(asking)).toContain(directory);
    const plain = render("collector");
    expect(volumesOf(plain)).not.toContain(directory);
    expect(plain.filter(({ kind }) => kind.startsWith("ClusterRole"))).toEqual([]);
  });

  it("are refused without the CA of core", () => {
    expect(() => render("collector", "serverCa=")).toThrow("--set-file serverCa=server-ca.crt");
  });
});
