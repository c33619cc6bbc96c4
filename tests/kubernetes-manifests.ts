import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DaemonSet } from "kubernetes-models/apps/v1/DaemonSet";
import { Deployment } from "kubernetes-models/apps/v1/Deployment";
import { Ingress } from "kubernetes-models/networking.k8s.io/v1/Ingress";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import type { Container } from "kubernetes-models/v1/Container";
import { Namespace } from "kubernetes-models/v1/Namespace";
import type { PodSpec } from "kubernetes-models/v1/PodSpec";
import { Service } from "kubernetes-models/v1/Service";
import { parse, parseAllDocuments } from "yaml";

const models = { DaemonSet, Deployment, Ingress, Namespace, NetworkPolicy, PodDisruptionBudget, Service };

/** A manifest as the model of its kind, which validates it against Kubernetes' schema. */
export type Manifest = InstanceType<(typeof models)[keyof typeof models]>;

/** A manifest as it is written. */
export type ManifestData = Manifest & { apiVersion: string; kind: keyof typeof models };

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

/** Returns the model of a manifest. Throws for a kind that no manifest has so far. */
export const modelOf = (data: ManifestData): Manifest => {
  const Model = models[data.kind];
  if (Model === undefined) throw new Error(`no model of ${data.kind}`);
  return new (Model as new (data: ManifestData) => Manifest)(data);
};

/** Returns the pod of the Deployment or DaemonSet with this name. */
export const podOf = ({ data }: ManifestFolder, name: string): PodSpec => {
  const workload = data.find(({ kind, metadata }) => /^(Deployment|DaemonSet)$/.test(kind) && metadata?.name === name);
  const pod = (workload as Deployment | undefined)?.spec?.template.spec;
  if (pod === undefined) throw new Error(`no pod ${name}`);
  return pod as PodSpec;
};

/** Returns a container or init container of a pod. */
export const containerOf = (pod: PodSpec, name: string): Container => {
  const container = [...pod.containers, ...(pod.initContainers ?? [])].find((entry) => entry.name === name);
  if (container === undefined) throw new Error(`no container ${name}`);
  return container as Container;
};
