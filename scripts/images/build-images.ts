import { stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import packageJson from "../../package.json" with { type: "json" };
import { readHeadCommit } from "../bundle/read-head-commit.ts";
import type { BaseImage } from "./base-image.ts";
import type { ContainerTools } from "./container-tools.ts";
import { runCommand } from "./run-command.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** The names of the published images. */
export const imageNames = ["core", "collector", "web"] as const;

/** One of the published images. */
export type ImageName = (typeof imageNames)[number];

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
export const imageReference = (name: string): string => `localhost/svc-${name}:${packageJson.version}`;

/** Builds one image from the repository's files and returns what it became. */
export const buildImage = async (
  { podman }: ContainerTools,
  { name, base, signal }: { name: ImageName | "lab"; base: BaseImage; signal: AbortSignal },
): Promise<BuiltImage> => {
  const reference = imageReference(name);
  const buildArgs = {
    NODE_IMAGE: base.reference,
    VERSION: packageJson.version,
    REVISION: readHeadCommit().trim(),
  };
  await podman(
    [
      // Health checks exist in Docker's format only.
      ...["build", "--pull=never", "--layers", "--network", "host", "--format", "docker"],
      ...Object.entries(buildArgs).flatMap(([key, value]) => ["--build-arg", `${key}=${value}`]),
      ...["--file", join(root, dockerfiles[name]), "--target", name, "--tag", reference, root],
    ],
    { timeoutMs: 900_000, signal },
  );
  const [found] = JSON.parse(await podman(["image", "inspect", reference])) as Inspected[];
  if (found === undefined) throw new Error(`${reference} was not built`);
  const { Id: id, Size: bytes, Config, Healthcheck } = found;
  const [kind, ...healthCheck] = Healthcheck?.Test ?? [];
  if (name !== "lab" && kind !== "CMD") throw new Error(`${reference} has no health check that runs without a shell`);
  const { User: user = "", Labels: labels = {}, Volumes = {} } = Config;
  return { reference, id, bytes, user, labels, healthCheck, volumes: Object.keys(Volumes) };
};

/**
 * Writes an image as an OCI layout archive to `file` and returns its size and the digest of its manifest in the archive. A registry
 * computes another digest when it compresses layers anew: a release records the digest of its push.
 */
export const saveImage = async (
  { podman }: ContainerTools,
  { reference }: Pick<BuiltImage, "reference">,
  file: string,
): Promise<{ file: string; bytes: number; digest: string }> => {
  await podman(["save", "--quiet", "--format", "oci-archive", "--output", file, reference]);
  const index = JSON.parse(await runCommand("tar", ["-xOf", file, "index.json"])) as {
    manifests: { digest: string }[];
  };
  const digest = index.manifests[0]?.digest;
  if (digest === undefined) throw new Error(`${file} holds no manifest`);
  return { file, bytes: (await stat(file)).size, digest };
};
