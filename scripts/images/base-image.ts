/**
 * The images that ours start from: the official one of Node, pinned by digest in the Dockerfiles, or a stand-in for it where no registry
 * can be reached. The stand-in is Debian from its mirrors with this project's Node. It serves to test the Dockerfiles, never to release.
 */
import { cp, mkdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ContainerTools, findProgram } from "./container-tools.ts";
import { runToEnd } from "./run-to-end.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** A base to build from. */
export interface BaseImage {
  kind: "real" | "stand-in";
  /** The value of the Dockerfiles' `NODE_IMAGE`. */
  reference: string;
}

/** The name of the stand-in; it never has the name of the image that it stands in for. */
export const standInName = "localhost/stand-in-node:26";

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
  try {
    await tools.podman(["pull", "--quiet", reference], { timeoutMs: 300_000 });
    return { kind: "real", reference };
  } catch (cause) {
    if (requireReal) throw new Error(`the base image cannot be pulled: ${reference}`, { cause });
  }
  process.stdout.write("BASE=stand-in\n");
  await makeStandIn(tools, progress);
  return { kind: "stand-in", reference: standInName };
};

const makeStandIn = async ({ dir, podman }: ContainerTools, progress: (line: string) => void): Promise<void> => {
  const exists = await podman(["image", "exists", standInName]).then(
    () => true,
    () => false,
  );
  if (exists) return;
  const rootfs = join(dir, "stand-in");
  progress("no registry can be reached: making a stand-in for the base with debootstrap");
  await rm(rootfs, { recursive: true, force: true });
  const include = "--include=ca-certificates,libatomic1";
  await runToEnd("debootstrap", ["--variant=minbase", include, "bookworm", rootfs], {
    env: { ...process.env, TMPDIR: dir },
  });
  await addNode(rootfs);
  await runToEnd("chroot", [rootfs, "useradd", "--uid", "1000", "--user-group", "--create-home", "node"]);
  await trustMachine(rootfs);
  const archive = join(dir, "stand-in.tar");
  await runToEnd("tar", ["-C", rootfs, "--exclude=./var/cache/apt/archives/*.deb", "-cf", archive, "."]);
  const changes = [
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt",
  ];
  await podman(["import", ...changes.flatMap((change) => ["--change", change]), archive, standInName]);
  await Promise.all([rm(archive), rm(rootfs, { recursive: true })]);
};

/** Adds this project's Node, and the machine's npm, which the package of Node does not contain. */
const addNode = async (rootfs: string): Promise<void> => {
  const bin = join(rootfs, "usr/local/bin");
  await cp(process.execPath, join(bin, "node"));
  const npm = findProgram("npm");
  if (npm === undefined) throw new Error("npm is not installed: the stand-in needs it");
  const modules = join(rootfs, "usr/local/lib/node_modules");
  await mkdir(modules, { recursive: true });
  await cp(dirname(dirname(await realpath(npm))), join(modules, "npm"), { recursive: true });
  for (const name of ["npm", "npx"]) await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(bin, name));
};

/** Trusts the authorities that this machine trusts: a proxy on the way to the package registry may have one of its own. */
const trustMachine = async (rootfs: string): Promise<void> => {
  const bundle = "/etc/ssl/certs/ca-certificates.crt";
  await cp(bundle, join(rootfs, bundle), { dereference: true });
  await writeFile(join(rootfs, "root/.npmrc"), `cafile=${bundle}\n`);
};

/** Returns the image of the database: the one that compose.yaml pins, or a stand-in beside a stand-in base. */
export const preparePostgres = async ({ podman }: ContainerTools, base: BaseImage): Promise<string> => {
  if (base.kind === "real") {
    const compose = await readFile(join(root, "compose.yaml"), "utf8");
    const reference = /SVC_POSTGRES_IMAGE:-(\S+@sha256:[0-9a-f]{64})\}/.exec(compose)?.[1];
    if (reference === undefined) throw new Error("compose.yaml does not pin the image of PostgreSQL by digest");
    await podman(["pull", "--quiet", reference], { timeoutMs: 300_000 });
    return reference;
  }
  const name = "localhost/stand-in-postgres:15";
  const folder = join(root, "scripts/images/stand-in-postgres");
  const options = ["--pull=never", "--layers", "--network", "host", "--format", "docker"];
  await podman(["build", ...options, "--build-arg", `NODE_IMAGE=${base.reference}`, "--tag", name, folder]);
  return name;
};
