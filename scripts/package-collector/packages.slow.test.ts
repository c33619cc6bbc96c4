import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { mkdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { openPackageRoot, whyNoRoot } from "#tests/collector/support/package-root.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { findProgram } from "../images/container-tools.ts";
import { type PackagePlatform, packagePlatforms } from "../platforms/package-platforms.ts";
import {
  type BuiltPackage,
  buildDebianPackage,
  type PackageBuild,
} from "./build-debian-package.ts";
import { buildRpmPackage } from "./build-rpm-package.ts";
import { installedBytesMax, tarredFiles, writeTree } from "./package-files.ts";

/** What differs between the formats: how to build, read, install and remove a package. */
interface PackageFormat {
  tools: readonly string[];
  build: (dir: string, build: PackageBuild) => Promise<BuiltPackage>;
  architecture: (path: string) => string;
  /** Lines with the mode, owner and path of each file. */
  list: (path: string) => string[];
  install: string;
  remove: string;
}

const print = (command: string, ...args: string[]) =>
  execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

const formats: Readonly<Record<"debian" | "rpm", PackageFormat>> = {
  debian: {
    tools: ["dpkg-deb", "dpkg"],
    build: buildDebianPackage,
    architecture: (path) => print("dpkg-deb", "--field", path, "Architecture").trim(),
    list: (path) =>
      print("sh", "-c", 'dpkg-deb --fsys-tarfile "$0" | tar -tv', path)
        .trim()
        .split("\n")
        .filter((line) => !line.startsWith("d"))
        .map((line) => line.replace(/^(\S+) (\S+) .* \.(\/\S+)$/, "$1 $2 $3")),
    install: 'dpkg --install "/srv/$1"',
    remove: "dpkg --remove svc-collector",
  },
  rpm: {
    tools: ["rpmbuild", "rpm"],
    build: buildRpmPackage,
    architecture: (path) => print("rpm", "-qp", "--queryformat", "%{ARCH}", path),
    list: (path) =>
      print(
        "rpm",
        "-qp",
        "--queryformat",
        "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]",
        path,
      )
        .trim()
        .split("\n")
        .filter((line) => !line.startsWith("d")),
    install: 'rpm --upgrade --nodeps --oldpackage "/srv/$1"',
    remove: "rpm --erase --nodeps svc-collector",
  },
};
const tools = Object.values(formats).flatMap((format) => format.tools);
const platforms = Object.keys(packagePlatforms) as PackagePlatform[];

let dir: string;
beforeEach(async () => {
  dir = newFolder();
  vi.stubEnv("SOURCE_DATE_EPOCH", "1767323045");
  onTestFinished(() => void vi.unstubAllEnvs());
});

/** A program in place of the collector, which is a hundred megabytes. */
const program = "#!/bin/sh\nexec sleep infinity\n";

const buildSample = async (
  format: PackageFormat,
  folder: string,
  {
    version = "0.3.0",
    platform = "linux-x64" as PackagePlatform,
    executable = join(dir, "program"),
  } = {},
) => {
  await mkdir(join(dir, folder), { recursive: true });
  await writeFile(join(dir, "program"), program);
  const completions = { bash: "# bash\n", zsh: "#compdef svc-collector\n", fish: "# fish\n" };
  const contents = { executable, completions, notices: "notices\n" };
  return (await format.build(join(dir, folder), { ...contents, version, platform })).path;
};

it("rejects a package that would install more than the goal allows", async () => {
  await writeFile(join(dir, "large"), "");
  await truncate(join(dir, "large"), installedBytesMax);
  const built = buildSample(formats.debian, "a", { executable: join(dir, "large") });
  await expect(built).rejects.toThrow(/would install \d+ bytes/);
});

describe.skipIf(!tools.every((tool) => findProgram(tool)))(
  "Debian and RPM packages (needs dpkg-deb and rpmbuild)",
  () => {
    it.each(platforms)(
      "have the same files, modes, owners and unit for %s, built on any platform",
      async (platform) => {
        const [debian, rpm] = await Promise.all(
          (["debian", "rpm"] as const).map(async (name) => {
            const path = await buildSample(formats[name], name, { platform });
            expect(formats[name].architecture(path)).toBe(packagePlatforms[platform][name]);
            const unit = "usr/lib/systemd/system/svc-collector.service";
            const tree = join(dir, name, name === "rpm" ? "rpm/tree" : "debian");
            return {
              files: formats[name].list(path).sort(),
              unit: await readFile(join(tree, unit), "utf8"),
            };
          }),
        );
        const anyZsh = (files: string[] = []) =>
          files.map((line) => line.replace(/zsh\/[\w-]+/, "zsh"));
        expect(anyZsh(rpm?.files)).toEqual(anyZsh(debian?.files));
        expect(debian?.files).toHaveLength(8);
        expect(debian?.files).toContain("-rwxr-xr-x root/root /usr/bin/svc-collector");
        expect(rpm?.unit).toBe(debian?.unit);
        expect(rpm?.unit).toContain("\nProtectSystem=strict\n");
      },
    );

    it.each(["debian", "rpm"] as const)(
      "U2: a %s package has the same hash in two folders",
      async (name) => {
        const hashes: string[] = [];
        for (const folder of ["first", "second-folder"])
          hashes.push(
            hash(
              "sha256",
              await readFile(await buildSample(formats[name], folder, { platform: "linux-arm64" })),
            ),
          );
        expect(hashes[1]).toBe(hashes[0]);
      },
    );

    it("a pre-release is older than its release", async () => {
      const debian = await buildSample(formats.debian, "a", { version: "0.4.0-rc.1" });
      expect(print("dpkg-deb", "--field", debian, "Version").trim()).toBe("0.4.0~rc.1");
      const rpm = await buildSample(formats.rpm, "a", { version: "0.4.0-rc.1" });
      expect(print("rpm", "-qp", "--queryformat", "%{VERSION}", rpm)).toBe("0.4.0~rc.1");
    });
  },
);

const canOpenRoot = whyNoRoot() === null;
describe.skipIf(!canOpenRoot).for(["debian", "rpm"] as const)(
  "in a root of its own, a %s package",
  (name) => {
    const format = formats[name];

    it.skipIf(!format.tools.every((tool) => findProgram(tool)))(
      `installs, upgrades and is removed (needs root and ${format.tools[0]})`,
      { timeout: 60_000 },
      async () => {
        const root = await openPackageRoot();
        onTestFinished(() => root.close());
        const install = async (version: string) => {
          const path = await buildSample(format, version, { version });
          await writeFile(join(root.shared, version), await readFile(path));
          await root.run(format.install, version);
        };
        /** What the unit was told since the last time, beside to read it again. */
        const calls = async () =>
          (await root.run("cat /run/stand-in/calls; : >/run/stand-in/calls"))
            .split("\n")
            .filter((call) => call !== "" && call !== "daemon-reload");
        const pid = () => root.run("systemctl is-active && cat /run/stand-in/pid || echo none");

        await install("0.3.0");
        expect(await calls()).toEqual(["enable", "start"]);
        expect(await pid()).toBe("none\n");
        const ownership = "stat -c '%U:%G %a' /etc/svc-collector /var/lib/svc-collector";
        expect(await root.run(ownership)).toBe(
          "svc-collector:svc-collector 750\nsvc-collector:svc-collector 700\n",
        );

        // Enrolled, as far as a package can see.
        await root.run(
          "for file in /etc/svc-collector/collector.yaml /var/lib/svc-collector/queue.db; do echo kept >$file; done",
        );
        await root.run("chmod 0710 /etc/svc-collector; systemctl start; systemctl is-active");
        const first = await pid();
        await calls();

        await install("0.3.1");
        expect(await calls()).toEqual(["restart"]);
        expect(await pid()).not.toBe(first);
        const kept = "cat /etc/svc-collector/collector.yaml /var/lib/svc-collector/queue.db";
        expect(await root.run(`${kept}; stat -c %a /etc/svc-collector`)).toBe("kept\nkept\n710\n");

        // A unit that a fault ended for good.
        await root.run(
          "kill -KILL $(cat /run/stand-in/pid); while systemctl is-active; do sleep 0.05; done",
        );
        await install("0.3.2");
        expect(await calls()).toEqual(["restart"]);
        expect(await pid()).not.toBe("none\n");

        // An upgrade starts nothing that was stopped.
        await root.run("systemctl stop; : >/run/stand-in/calls");
        await install("0.3.3");
        expect([await calls(), await pid()]).toEqual([[], "none\n"]);

        await root.run("systemctl mask; : >/run/stand-in/calls");
        await install("0.3.4");
        expect(await calls()).toEqual([]);
        await root.run(format.remove);
        await install("0.3.4");
        expect([await calls(), await pid()]).toEqual([["stop"], "none\n"]);

        // Removed without purge, and installed again.
        await root.run(
          "systemctl unmask; systemctl enable; systemctl start; : >/run/stand-in/calls",
        );
        await root.run(format.remove);
        expect([await calls(), await pid()]).toEqual([["stop", "disable"], "none\n"]);
        expect(
          await root.run(
            `test ! -e /usr/bin/svc-collector; test ! -e /usr/lib/svc-collector; ${kept}`,
          ),
        ).toBe("kept\nkept\n");
        await install("0.3.4");
        expect(await calls()).toEqual(["enable", "start"]);
        expect(await pid()).not.toBe("none\n");

        // A machine that forbids its packages to start programs.
        await root.run(
          "printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d",
        );
        await install("0.3.5");
        expect(await calls()).toEqual([]);

        if (name !== "debian") return;
        await root.run("dpkg --purge svc-collector");
        await root.run("test ! -e /etc/svc-collector; test ! -e /var/lib/svc-collector");
      },
    );
  },
);

/** A root of its own, in which the unpacked tar is at `/srv/tar`. */
const openTarRoot = async () => {
  const root = await openPackageRoot();
  onTestFinished(() => root.close());
  await writeFile(join(dir, "program"), program);
  const completions = { bash: "", zsh: "", fish: "" };
  const contents = { executable: join(dir, "program"), completions, notices: "" };
  await writeTree(join(root.shared, "tar"), tarredFiles(contents));
  return root;
};

it.skipIf(!canOpenRoot)(
  "in a root of its own, the tar installs, upgrades and removes the same (needs root)",
  { timeout: 60_000 },
  async () => {
    const root = await openTarRoot();
    const install = (...args: string[]) => root.run('/srv/tar/install.sh "$@"', ...args);
    const installWithoutRoom = async () => {
      await root.run(
        "cp /srv/tar/usr/bin/svc-collector /srv/kept; head -c 65536 /dev/zero >>/srv/tar/usr/bin/svc-collector",
      );
      await expect(root.run("ulimit -f 64; /srv/tar/install.sh")).rejects.toThrow();
      expect(
        await root.run(
          "find /usr -name '*svc-collector*.new'; mv /srv/kept /srv/tar/usr/bin/svc-collector",
        ),
      ).toBe("");
    };
    await installWithoutRoom();
    await root.run("chmod -x /usr/bin/systemctl");
    await expect(install()).rejects.toThrow();
    await root.run("chmod +x /usr/bin/systemctl");
    await install();
    await root.run(
      "echo kept >/etc/svc-collector/collector.yaml; systemctl start; cmp /srv/tar/usr/bin/svc-collector /usr/bin/svc-collector",
    );
    const first = await root.run("cat /run/stand-in/pid");
    await installWithoutRoom();
    await root.run("cmp /srv/tar/usr/bin/svc-collector /usr/bin/svc-collector");
    await install();
    expect(await root.run("systemctl is-active; cat /run/stand-in/pid")).not.toBe(first);
    await install("--remove");
    const calls = (await root.run("cat /run/stand-in/calls"))
      .replaceAll("daemon-reload\n", "")
      .trim()
      .split("\n");
    expect(calls).toEqual(["enable", "start", "start", "restart", "stop", "disable"]);
    const left =
      "test ! -e /usr/bin/svc-collector; test ! -e /usr/lib/systemd/system/svc-collector.service; cat /etc/svc-collector/*";
    expect(await root.run(left)).toBe("kept\n");
    await root.run(
      "DESTDIR=/srv/staged /srv/tar/install.sh; test -x /srv/staged/usr/bin/svc-collector; test ! -e /usr/bin/svc-collector",
    );
  },
);

it.skipIf(!canOpenRoot)(
  "in a root of its own, the unit adds its user to the group of the journal if the config asks for that, and starts without the group (needs root)",
  { timeout: 60_000 },
  async () => {
    const root = await openTarRoot();
    await root.run("/srv/tar/install.sh; groupdel systemd-journal 2>/dev/null || true");
    const groupsWith = (config: string) =>
      root.run(
        'echo "$1" >/etc/svc-collector/collector.yaml; systemctl restart; systemctl is-active; id -nG svc-collector',
        config,
      );
    expect(await groupsWith("- { type: journald }")).toBe("svc-collector\n");
    await root.run("groupadd --system systemd-journal");
    expect(await groupsWith("- { type: file } # and no journald")).toBe("svc-collector\n");
    for (let starts = 0; starts < 2; starts++)
      expect(await groupsWith("- { type: journald }")).toBe("svc-collector systemd-journal\n");
  },
);
