/**
 * podman with its storage, networks and settings in one folder, so that nothing of the machine's own containers is seen or changed.
 *
 * The settings are those that also work in a container and on hybrid cgroups: runc rather than crun, cgroupfs, and limits that an
 * unprivileged parent can set. Tools that Debian's podman 4.3 needs beside it are unpacked into the folder, not installed.
 */
import { accessSync, constants, existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { listFirewallChains, removeFirewallChains } from "./firewall-chains.ts";
import { type CommandOptions, runToEnd } from "./run-to-end.ts";

/** podman, and where its files are. */
export interface ContainerTools {
  /** The folder that holds everything. */
  dir: string;
  /** The environment of podman and of docker-compose. */
  env: Record<string, string>;
  /** Runs podman and returns its stdout. Throws `CommandError`. */
  podman(args: readonly string[], options?: CommandOptions): Promise<string>;
  /** netavark's chains in the firewall before these tools were opened. */
  firewallChains: ReadonlySet<string>;
}

const packages = ["buildah", "podman", "crun", "debootstrap", "docker-compose"];
const unpackedPackages = ["runc", "netavark", "aardvark-dns", "catatonit"];
const helperFolders = ["usr/lib/podman", "usr/libexec/podman"];

const systemPath = process.env.PATH ?? "/usr/sbin:/usr/bin:/sbin:/bin";

/** Returns the path of a program on `path` that this account may run, or undefined. */
export const findProgram = (name: string, path = systemPath): string | undefined =>
  path
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find(isExecutable);

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** Returns why no image can be built on this machine, or composed, or null. */
export const whySkipped = (composes: boolean): string | null => {
  if (process.platform !== "linux") return "images are built on Linux";
  if (process.getuid?.() !== 0) return "building images needs root";
  const missing = ["podman", ...(composes ? ["docker-compose"] : [])].find(
    (name) => !findProgram(name),
  );
  if (missing !== undefined)
    return `${missing} is not installed (apt-get install ${packages.join(" ")}, or add --install to do that)`;
  return null;
};

/** Installs podman with apt-get and unpacks what it needs beside it into `dir`. Only on Debian, as root. */
export const installContainerTools = async (
  dir: string,
  progress: (line: string) => void,
): Promise<void> => {
  const apt = (...args: string[]) =>
    runToEnd("apt-get", ["-o", "DPkg::Lock::Timeout=120", ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      cwd: dir,
    });
  await mkdir(dir, { recursive: true });
  progress(`apt-get install ${packages.join(" ")}`);
  await apt("install", "-y", "--no-install-recommends", ...packages).catch(async () => {
    await apt("update");
    await apt("install", "-y", "--no-install-recommends", ...packages);
  });
  if (existsSync(join(dir, "tools"))) return;
  progress(`unpacking ${unpackedPackages.join(", ")} into ${dir}`);
  await apt("-o", "APT::Sandbox::User=root", "download", ...unpackedPackages);
  for (const file of (await readdir(dir)).filter((name) => name.endsWith(".deb"))) {
    await runToEnd("dpkg", ["-x", join(dir, file), join(dir, "tools")]);
    await rm(join(dir, file));
  }
};

/** Writes podman's settings for `dir` and returns podman. */
export const openContainerTools = async (dir: string): Promise<ContainerTools> => {
  const tools = join(dir, "tools");
  await Promise.all(
    ["networks", "tmp"].map((folder) => mkdir(join(dir, folder), { recursive: true })),
  );
  const path = [join(tools, "usr/sbin"), join(tools, "usr/bin"), systemPath].join(delimiter);
  const runc = findProgram("runc", path);
  const hasNetavark = [tools, "/"].some((root) =>
    helperFolders.some((at) => existsSync(join(root, at, "netavark"))),
  );
  const helpers = [tools, "/"].flatMap((root) => helperFolders.map((folder) => join(root, folder)));
  const lines = [
    "[containers]",
    'default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]',
    "[network]",
    `network_config_dir = ${JSON.stringify(join(dir, "networks"))}`,
    ...(hasNetavark ? ['network_backend = "netavark"'] : []),
    "[engine]",
    'cgroup_manager = "cgroupfs"',
    'events_logger = "file"',
    `helper_binaries_dir = ${JSON.stringify(helpers)}`,
    ...(runc ? ['runtime = "runc"', "[engine.runtimes]", `runc = [${JSON.stringify(runc)}]`] : []),
  ];
  await writeFile(join(dir, "containers.conf"), `${lines.join("\n")}\n`);
  const storage = { driver: "overlay", graphroot: join(dir, "graph"), runroot: join(dir, "run") };
  const storageLines = Object.entries(storage).map(
    ([key, value]) => `${key} = ${JSON.stringify(value)}`,
  );
  await writeFile(join(dir, "storage.conf"), `[storage]\n${storageLines.join("\n")}\n`);
  const env = {
    PATH: path,
    HOME: process.env.HOME ?? "/root",
    TMPDIR: join(dir, "tmp"),
    CONTAINERS_CONF: join(dir, "containers.conf"),
    CONTAINERS_STORAGE_CONF: join(dir, "storage.conf"),
    // Health checks are run by hand: a machine without systemd has no timers for them.
    DISABLE_HC_SYSTEMD: "true",
  };
  const firewallChains = await listFirewallChains();
  return {
    dir,
    env,
    firewallChains,
    podman: (args, options = {}) => runToEnd("podman", args, { ...options, env }),
  };
};

/** Removes every container and network of these tools, their firewall chains and what they mounted; then the folder, unless `keep`. */
export const closeContainerTools = async (
  { dir, podman, firewallChains }: ContainerTools,
  keep: boolean,
): Promise<void> => {
  await podman(["rm", "--all", "--force", "--volumes", "--time", "1"]).catch(() => undefined);
  await podman(["network", "prune", "--force"]).catch(() => undefined);
  await removeFirewallChains(firewallChains).catch(() => undefined);
  const mounts = (await readFile("/proc/self/mounts", "utf8"))
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "");
  // Inner mounts first.
  for (const mount of mounts.filter((path) => path.startsWith(`${dir}/`)).reverse())
    await runToEnd("umount", [mount]).catch(() => undefined);
  if (!keep) await rm(dir, { recursive: true, force: true });
};
