import { join } from "node:path";
import packageJson from "#package.json" with { type: "json" };
import { readCommitTime, readHeadCommit } from "../bundle/read-head-commit.ts";
import { root } from "../repository-files.ts";
import type { BaseImage } from "./base-image.ts";
import type { ContainerTools } from "./container-tools.ts";

/** The names of the published images. */
export const imageNames = ["core", "collector", "web"] as const;

/** One of the published images. */
export type ImageName = (typeof imageNames)[number];

/** The architectures that images are built for, as OCI names them. */
export const imageArchitectures = ["amd64", "arm64"] as const;

/** The architecture of an image. */
export type ImageArchitecture = (typeof imageArchitectures)[number];

/** The architecture of this machine. */
export const hostArchitecture: ImageArchitecture = process.arch === "arm64" ? "arm64" : "amd64";

/** A built image. */
export interface BuiltImage {
  /** Its name in the local storage, tagged with the version of package.json. */
  reference: string;
  /** The id of its configuration. */
  id: string;
  bytes: number;
  user: string;
  labels: Readonly<Record<string, string>>;
  /** The command of its health check. */
  healthCheck: readonly string[];
  /** Where it expects volumes. */
  volumes: readonly string[];
}

/** The parts that are used of what podman 4 reports on an image. */
interface Inspected {
  Id: string;
  Size: number;
  Config: { User?: string; Labels?: Record<string, string>; Volumes?: Record<string, object> };
  Healthcheck?: { Test?: string[] };
}

/** Its Dockerfile for each image; targets are named as the images. */
const dockerfiles: Readonly<Record<ImageName | "lab", string>> = {
  core: "Dockerfile.core",
  collector: "Dockerfile.core",
  web: "Dockerfile.web",
  lab: "Dockerfile.core",
};

/** Returns the local name of an image. */
export const imageReference = (name: string): string =>
  `localhost/svc-${name}:${packageJson.version}`;

/**
 * Builds one image from the repository's files, for this machine's architecture or another, and returns what it became. Every time in it is
 * that of the commit, so that the same commit and base give the same layers. `fresh` builds every layer, and another local image.
 */
export const buildImage = async (
  { podman }: ContainerTools,
  {
    name,
    base,
    signal,
    architecture = hostArchitecture,
    fresh = false,
  }: {
    name: ImageName | "lab";
    base: BaseImage;
    signal: AbortSignal;
    architecture?: ImageArchitecture;
    fresh?: boolean;
  },
): Promise<BuiltImage> => {
  const foreign = architecture === hostArchitecture ? "" : `-${architecture}`;
  const reference = `${imageReference(name)}${foreign}${fresh ? "-again" : ""}`;
  const time = readCommitTime();
  const buildArgs = {
    NODE_IMAGE: base.references[hostArchitecture],
    TARGET_IMAGE: base.references[architecture],
    VERSION: packageJson.version,
    REVISION: readHeadCommit().trim(),
    CREATED: time.toISOString(),
  };
  const options = {
    network: "host",
    // Health checks exist in Docker's format only.
    format: "docker",
    platform: `linux/${architecture}`,
    timestamp: String(time.getTime() / 1000),
    file: join(root, dockerfiles[name]),
    target: name,
    tag: reference,
  };
  const args = [
    "build",
    "--pull=never",
    "--layers",
    ...(fresh ? ["--no-cache"] : []),
    ...Object.entries(buildArgs).flatMap(([key, value]) => ["--build-arg", `${key}=${value}`]),
    ...Object.entries(options).flatMap(([key, value]) => [`--${key}`, value]),
    root,
  ];
  await podman(args, { timeoutMs: 900_000, signal });
  return inspectImage({ podman }, name, reference);
};

const inspectImage = async (
  { podman }: Pick<ContainerTools, "podman">,
  name: ImageName | "lab",
  reference: string,
): Promise<BuiltImage> => {
  const [found] = JSON.parse(await podman(["image", "inspect", reference])) as Inspected[];
  if (found === undefined) throw new Error(`${reference} was not built`);
  const { Id: id, Size: bytes, Config, Healthcheck } = found;
  const [kind, ...healthCheck] = Healthcheck?.Test ?? [];
  if (name !== "lab" && kind !== "CMD")
    throw new Error(`${reference} has no health check that runs without a shell`);
  const { User: user = "", Labels: labels = {}, Volumes = {} } = Config;
  return { reference, id, bytes, user, labels, healthCheck, volumes: Object.keys(Volumes) };
};
