import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempDisposableSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DaemonSet, type IDaemonSet } from "kubernetes-models/apps/v1/DaemonSet";
import { Deployment, type IDeployment } from "kubernetes-models/apps/v1/Deployment";
import { type IIngress, Ingress } from "kubernetes-models/networking.k8s.io/v1/Ingress";
import {
  type INetworkPolicy,
  NetworkPolicy,
} from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import {
  type IPodDisruptionBudget,
  PodDisruptionBudget,
} from "kubernetes-models/policy/v1/PodDisruptionBudget";
import { type INamespace, Namespace } from "kubernetes-models/v1/Namespace";
import type { IPodSpec } from "kubernetes-models/v1/PodSpec";
import { type IService, Service } from "kubernetes-models/v1/Service";
import { type IServiceAccount, ServiceAccount } from "kubernetes-models/v1/ServiceAccount";
import { parse, parseAllDocuments } from "yaml";

const models = {
  DaemonSet,
  Deployment,
  Ingress,
  Namespace,
  NetworkPolicy,
  PodDisruptionBudget,
  Service,
  ServiceAccount,
};

/** A manifest as it is written, by its kind. */
export type ManifestData =
  | IDaemonSet
  | IDeployment
  | IIngress
  | INamespace
  | INetworkPolicy
  | IPodDisruptionBudget
  | IService
  | IServiceAccount;

/** The parts of a kustomization that the manifests use. */
export interface Kustomization {
  namespace: string;
  resources: string[];
  images: { name: string; newTag: string }[];
  configMapGenerator: { name: string; envs?: string[]; files?: string[] }[];
  secretGenerator?: { name: string; files: string[] }[];
}

/** A folder of manifests. */
export type ManifestFolder = ReturnType<typeof readManifests>;

/** Reads the resources that the kustomization of a folder lists. */
export const readManifests = (path: string) => {
  const read = (name: string) => readFileSync(join(path, name), "utf8");
  const kustomization: Kustomization = parse(read("kustomization.yaml"));
  const data = kustomization.resources.flatMap((name) =>
    parseAllDocuments(read(name)).map((document): ManifestData => document.toJS()),
  );
  return { path, kustomization, data };
};

/** Validates a manifest against Kubernetes' schema of its kind. Throws for a fault, and for a kind that no manifest has so far. */
export const validateManifest = (data: ManifestData): void => {
  const Model = models[data.kind];
  if (Model === undefined) throw new Error(`no model of ${data.kind}`);
  new (Model as new (data: ManifestData) => { validate(): void })(data).validate();
};

/** How the types of a kind are named, by the version of Kubernetes; without a name: the newest that a package has. */
const typesOf = {
  "1.30": (apiVersion: string, kind: string) => {
    const [group, version] = apiVersion.includes("/")
      ? apiVersion.split("/")
      : ["core", apiVersion];
    return `import("kubernetes-types/${group?.split(".")[0]}/${version}").${kind}`;
  },
  "1.33": (apiVersion: string, kind: string) =>
    `import("kubernetes-models-1.33/${apiVersion}/${kind}").I${kind}`,
  newest: (apiVersion: string, kind: string) =>
    `import("kubernetes-models/${apiVersion}/${kind}").I${kind}`,
};

/** The versions of Kubernetes whose types `unknownKeys` has. */
export const kubernetesVersions = ["1.30", "1.33", "newest"] as const;

/**
 * Checks manifests with the compiler, which, unlike the schemas, rejects unknown keys at any depth; returns what it says, empty for nothing.
 */
export const unknownKeys = (
  data: readonly ManifestData[],
  of: (typeof kubernetesVersions)[number] = "newest",
) => {
  mkdirSync(".cache", { recursive: true });
  using folder = mkdtempDisposableSync(join(".cache", "manifests-"));
  const lines = data.map(({ apiVersion, kind, ...rest }, index) => {
    return `export const manifest${index}: ${typesOf[of](apiVersion, kind)} = ${JSON.stringify({ apiVersion, kind, ...rest }, null, 1)};`;
  });
  writeFileSync(join(folder.path, "manifests.ts"), lines.join("\n"));
  const compilerOptions = {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    module: "preserve",
    types: [],
  };
  writeFileSync(
    join(folder.path, "tsconfig.json"),
    JSON.stringify({ compilerOptions, files: ["manifests.ts"] }),
  );
  return spawnSync("node_modules/.bin/tsc", ["-p", folder.path, "--pretty", "false"], {
    encoding: "utf8",
  }).stdout;
};

/** Returns the pod of the Deployment or DaemonSet with this name. */
export const podOf = ({ data }: Pick<ManifestFolder, "data">, name: string) => {
  const pods = data.flatMap((manifest) =>
    (manifest.kind === "Deployment" || manifest.kind === "DaemonSet") &&
    manifest.metadata?.name === name
      ? [manifest.spec?.template.spec]
      : [],
  );
  if (pods[0] === undefined) throw new Error(`no pod ${name}`);
  return pods[0];
};

/** Returns a container or init container of a pod. */
export const containerOf = (pod: IPodSpec, name: string) => {
  const container = [...pod.containers, ...(pod.initContainers ?? [])].find(
    (entry) => entry.name === name,
  );
  if (container === undefined) throw new Error(`no container ${name}`);
  return container;
};
