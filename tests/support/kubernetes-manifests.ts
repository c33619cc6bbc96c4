import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DaemonSet, type IDaemonSet } from "kubernetes-models/apps/v1/DaemonSet";
import { Deployment, type IDeployment } from "kubernetes-models/apps/v1/Deployment";
import { type IIngress, Ingress } from "kubernetes-models/networking.k8s.io/v1/Ingress";
import { type INetworkPolicy, NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { type IPodDisruptionBudget, PodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import type { IContainer } from "kubernetes-models/v1/Container";
import { type INamespace, Namespace } from "kubernetes-models/v1/Namespace";
import type { IPodSpec } from "kubernetes-models/v1/PodSpec";
import { type IService, Service } from "kubernetes-models/v1/Service";
import { parse, parseAllDocuments } from "yaml";

const models = { DaemonSet, Deployment, Ingress, Namespace, NetworkPolicy, PodDisruptionBudget, Service };

/** A manifest as it is written, by its kind. */
export type ManifestData =
  | IDaemonSet
  | IDeployment
  | IIngress
  | INamespace
  | INetworkPolicy
  | IPodDisruptionBudget
  | IService;

/** The parts of a kustomization that the manifests use. */
export interface Kustomization {
  namespace: string;
  resources: string[];
  images: { name: string; newTag: string }[];
  configMapGenerator: { name: string; envs?: string[]; files?: string[] }[];
  secretGenerator?: { name: string; files: string[] }[];
}

/** A folder of manifests. */
export interface ManifestFolder {
  path: string;
  kustomization: Kustomization;
  data: ManifestData[];
}

/** Reads the resources that the kustomization of a folder lists. */
export const readManifests = (path: string): ManifestFolder => {
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

/** Returns the pod of the Deployment or DaemonSet with this name. */
export const podOf = ({ data }: Pick<ManifestFolder, "data">, name: string): IPodSpec => {
  const pods = data.flatMap((manifest) =>
    (manifest.kind === "Deployment" || manifest.kind === "DaemonSet") && manifest.metadata?.name === name
      ? [manifest.spec?.template.spec]
      : [],
  );
  if (pods[0] === undefined) throw new Error(`no pod ${name}`);
  return pods[0];
};

/** Returns a container or init container of a pod. */
export const containerOf = (pod: IPodSpec, name: string): IContainer => {
  const container = [...pod.containers, ...(pod.initContainers ?? [])].find((entry) => entry.name === name);
  if (container === undefined) throw new Error(`no container ${name}`);
  return container;
};
