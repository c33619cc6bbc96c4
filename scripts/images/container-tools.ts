/**
 * podman with its storage, networks and settings in one folder, so that nothing of the machine's own containers is seen or changed.
 *
 * The settings are those that also work in a container and on hybrid cgroups: runc rather than crun, cgroupfs, and limits that an
 * unprivileged parent can set.
 */
import { accessSync, constants, existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
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

/** What Debian needs; podman 4.3 uses the last four without asking for them. */
const packages = [
  "buildah",
  "podman",
  "crun",
  "debootstrap",
  "docker-compose",
  "runc",
  "netavark",
  "aardvark-dns",
  "catatonit",
];
const helperFolders = ["/usr/lib/podman", "/usr/libexec/podman"];

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
    return `${missing} is not installed (apt-get install ${packages.join(" ")})`;
  return null;
};

/** Writes podman's settings for `dir` and returns podman. */
export const openContainerTools = async (dir: string): Promise<ContainerTools> => {
  await Promise.all(
    ["networks", "tmp"].map((folder) => mkdir(join(dir, folder), { recursive: true })),
  );
  const runc = findProgram("runc");
  const hasNetavark = helperFolders.some((folder) => existsSync(join(folder, "netavark")));
  const lines = [
    "[containers]",
    'default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]',
    "[network]",
    `network_config_dir = ${JSON.stringify(join(dir, "networks"))}`,
    ...(hasNetavark ? ['network_backend = "netavark"'] : []),
    "[engine]",
    'cgroup_manager = "cgroupfs"',
    'events_logger = "file"',
    `helper_binaries_dir = ${JSON.stringify(helperFolders)}`,
    ...(runc ? ['runtime = "runc"', "[engine.runtimes]", `runc = [${JSON.stringify(runc)}]`] : []),
  ];
  await writeFile(join(dir, "containers.conf"), `${lines.join("\n")}\n`);
  const storage = { driver: "overlay", graphroot: join(dir, "graph"), runroot: join(dir, "run") };
  const storageLines = Object.entries(storage).map(
    ([key, value]) => `${key} = ${JSON.stringify(value)}`,
  );
  await writeFile(join(dir, "storage.conf"), `[storage]\n${storageLines.join("\n")}\n`);
  const env = {
    PATH: systemPath,
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
