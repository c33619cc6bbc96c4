/**
 * The images that ours start from: the official one of Node, pinned by digest in the Dockerfiles, or a stand-in for it where no registry
 * can be reached. The stand-in is Debian from its mirrors with this project's Node. It serves to test the Dockerfiles, never to release.
 */

import { cp, mkdir, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { nodeOf } from "../platforms/package-platforms.ts";
import { root } from "../repository-files.ts";
import { hostArchitecture, type ImageArchitecture, imageArchitectures } from "./build-images.ts";
import { type ContainerTools, findProgram } from "./container-tools.ts";
import { runToEnd } from "./run-to-end.ts";

/** A base to build from. */
export interface BaseImage {
  kind: "real" | "stand-in";
  /**
   * By architecture, the values of the Dockerfiles' `NODE_IMAGE` and `TARGET_IMAGE`. They are the ids that podman has given: the digest of the
   * Dockerfiles is that of both, and buildah 1.28 looks for a name on the platform that is built for alone.
   */
  references: Readonly<Record<ImageArchitecture, string>>;
}

/** Returns the name of a stand-in; it never has the name of the image that it stands in for. */
const standInName = (architecture: ImageArchitecture) =>
  `localhost/stand-in-node-${architecture}:26`;

/** Returns the image that the Dockerfiles start from unless another is given, with its digest. */
export const readPinnedBase = async (dockerfile: string): Promise<string> => {
  const text = await readFile(join(root, dockerfile), "utf8");
  const reference = /^ARG NODE_IMAGE=(\S+@sha256:[0-9a-f]{64})$/m.exec(text)?.[1];
  if (reference === undefined) throw new Error(`${dockerfile} does not pin NODE_IMAGE by digest`);
  return reference;
};

/** Pulls the pinned base; where no registry answers, makes the stand-in, unless `requireReal`. */
export const prepareBase = async (
  tools: ContainerTools,
  { requireReal, progress }: { requireReal: boolean; progress(line: string): void },
): Promise<BaseImage> => {
  const reference = await readPinnedBase("Dockerfile.core");
  progress(`pulling ${reference}`);
  const references = {} as Record<ImageArchitecture, string>;
  try {
    for (const architecture of imageArchitectures) {
      const pull = ["pull", "--quiet", "--platform", `linux/${architecture}`, reference];
      references[architecture] = (await tools.podman(pull, { timeoutMs: 300_000 })).trim();
    }
    return { kind: "real", references };
  } catch (cause) {
    if (requireReal) throw new Error(`the base image cannot be pulled: ${reference}`, { cause });
  }
  console.log("BASE=stand-in");
  for (const architecture of imageArchitectures) {
    await makeStandIn(tools, architecture, progress);
    const inspect = ["image", "inspect", "--format", "{{.Id}}", standInName(architecture)];
    references[architecture] = (await tools.podman(inspect)).trim();
  }
  return { kind: "stand-in", references };
};

/**
 * Creates a stand-in with debootstrap. For another architecture it has the files of Debian's packages and is not configured, since nothing of it
 * can run.
 */
const makeStandIn = async (
  tools: ContainerTools,
  architecture: ImageArchitecture,
  progress: (line: string) => void,
): Promise<void> => {
  const { dir } = tools;
  const foreign = architecture !== hostArchitecture;
  const exists = await tools.podman(["image", "exists", standInName(architecture)]).then(
    () => true,
    () => false,
  );
  if (exists) return;
  const rootfs = join(dir, `stand-in-${architecture}`);
  progress(
    `no registry can be reached: making a stand-in for the base on ${architecture} with debootstrap`,
  );
  await rm(rootfs, { recursive: true, force: true });
  const include = "--include=ca-certificates,libatomic1";
  const stages = [`--arch=${architecture}`, ...(foreign ? ["--foreign"] : [])];
  await runToEnd("debootstrap", ["--variant=minbase", include, ...stages, "bookworm", rootfs], {
    env: { ...process.env, TMPDIR: dir },
  });
  if (foreign) await unpackLibraries(rootfs, architecture);
  else {
    await addNpm(rootfs);
    await runToEnd("chroot", [
      rootfs,
      "useradd",
      "--uid",
      "1000",
      "--user-group",
      "--create-home",
      "node",
    ]);
    await trustMachine(rootfs);
  }
  const node = await nodeOf(architecture === "amd64" ? "linux-x64" : "linux-arm64");
  await cp(node, join(rootfs, "usr/local/bin/node"));
  await importRootfs(tools, rootfs, architecture);
};

/** Imports a root file system as the stand-in, and removes it. */
const importRootfs = async (
  { dir, podman }: ContainerTools,
  rootfs: string,
  architecture: ImageArchitecture,
): Promise<void> => {
  const archive = join(dir, "stand-in.tar");
  const left = [
    "--exclude=./var/cache/apt/archives/*.deb",
    "--exclude=./dev/*",
    "--exclude=./debootstrap",
  ];
  await runToEnd("tar", ["-C", rootfs, ...left, "-cf", archive, "."]);
  const changes = [
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt",
  ];
  const platform = ["--os", "linux", "--arch", architecture];
  await podman([
    "import",
    ...platform,
    ...changes.flatMap((change) => ["--change", change]),
    archive,
    standInName(architecture),
  ]);
  await Promise.all([rm(archive), rm(rootfs, { recursive: true })]);
};

/** The packages of the libraries that Node links. */
const libraryPackages = ["libc6", "libgcc-s1", "libstdc++6", "libatomic1"];

/** Unpacks the libraries that Node links and lists them as installed, which debootstrap's second stage would do. */
const unpackLibraries = async (rootfs: string, architecture: ImageArchitecture): Promise<void> => {
  const archives = join(rootfs, "var/cache/apt/archives");
  const files = await readdir(archives);
  const statuses: string[] = [];
  for (const name of libraryPackages) {
    const file = files.find(
      (each) => each.startsWith(`${name}_`) && each.endsWith(`_${architecture}.deb`),
    );
    if (file === undefined) throw new Error(`debootstrap fetched no ${name} for ${architecture}`);
    await runToEnd("dpkg-deb", ["-x", join(archives, file), rootfs]);
    const control = await runToEnd("dpkg-deb", ["--field", join(archives, file)]);
    statuses.push(`${control.replace("\n", "\nStatus: install ok installed\n").trimEnd()}\n`);
  }
  await writeFile(join(rootfs, "var/lib/dpkg/status"), statuses.join("\n"));
};

/** Adds the machine's npm, which the package of Node does not contain. */
const addNpm = async (rootfs: string): Promise<void> => {
  const bin = join(rootfs, "usr/local/bin");
  const npm = findProgram("npm");
  if (npm === undefined) throw new Error("npm is not installed: the stand-in needs it");
  const modules = join(rootfs, "usr/local/lib/node_modules");
  await mkdir(modules, { recursive: true });
  await cp(dirname(dirname(await realpath(npm))), join(modules, "npm"), { recursive: true });
  for (const name of ["npm", "npx"])
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(bin, name));
};

/** Trusts the authorities that this machine trusts: a proxy on the way to the package registry may have one of its own. */
const trustMachine = async (rootfs: string): Promise<void> => {
  const bundle = "/etc/ssl/certs/ca-certificates.crt";
  await cp(bundle, join(rootfs, bundle), { dereference: true });
  await writeFile(join(rootfs, "root/.npmrc"), `cafile=${bundle}\n`);
};

/** Returns the image of the database: the one that compose.yaml pins, or a stand-in beside a stand-in base. */
export const preparePostgres = async (
  { podman }: ContainerTools,
  base: BaseImage,
): Promise<string> => {
  if (base.kind === "real") {
    const compose = await readFile(join(root, "compose.yaml"), "utf8");
    const reference = /SVC_POSTGRES_IMAGE:-(\S+@sha256:[0-9a-f]{64})\}/.exec(compose)?.[1];
    if (reference === undefined)
      throw new Error("compose.yaml does not pin the image of PostgreSQL by digest");
    await podman(["pull", "--quiet", reference], { timeoutMs: 300_000 });
    return reference;
  }
  const name = "localhost/stand-in-postgres:15";
  const folder = join(root, "scripts/images/stand-in-postgres");
  const options = ["--pull=never", "--layers", "--network", "host", "--format", "docker"];
  await podman([
    "build",
    ...options,
    "--build-arg",
    `NODE_IMAGE=${base.references[hostArchitecture]}`,
    "--tag",
    name,
    folder,
  ]);
  return name;
};
