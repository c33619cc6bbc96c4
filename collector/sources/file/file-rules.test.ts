import { chownSync, lchownSync, linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { createMounts } from "#collector/files/mounts.ts";
import { systemClock } from "#kit/clock.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import type { FileRules } from "../source.ts";
import { createSourceFiles, ForbiddenFileError, isTrustedLink } from "./source-files.ts";

const sourceFiles = createSourceFiles(createMounts(systemClock));
let dir: string;
const at = (...names: string[]) => join(dir, ...names);

beforeEach(() => {
  dir = newFolder();
  for (const name of ["logs", "logs/app", "etc", "identity"]) mkdirSync(at(name));
  for (const name of ["logs/app/app.log", "etc/shadow", "identity/tls.key"])
    writeFileSync(at(name), `${name}\n`);
});

/** Returns the text of the file if the rules allow to read it, or why not. */
const read = async (path: string, rules: FileRules) => {
  try {
    await using opened = await sourceFiles
      .open(path, rules)
      .then((found) => found && { ...found, [Symbol.asyncDispose]: () => found.close() });
    return opened && (await opened.read(Buffer.alloc(100), 0)).toString();
  } catch (error) {
    if (error instanceof ForbiddenFileError) return error.message;
    throw error;
  }
};

describe("management.file_roots", () => {
  const readInside = (path: string) => read(path, { neverRead: [], roots: [at("logs")] });
  const outside = "it is outside management.file_roots";

  it("bound what is read by the place of the opened file, however a path or a link leads there", async () => {
    expect(await readInside(at("logs/app/app.log"))).toBe("logs/app/app.log\n");
    expect(await readInside(`${dir}/logs/app/../../etc/shadow`)).toBe(outside);
    symlinkSync(at("etc/shadow"), at("logs/app/link.log"));
    expect(await readInside(at("logs/app/link.log"))).toBe(outside);
    symlinkSync("../../etc", at("logs/app/deep"));
    expect(await readInside(at("logs/app/deep/shadow"))).toBe(outside);
    expect(await readInside(at("logs/../logs/app/app.log"))).toBe("logs/app/app.log\n");
  });

  it("may be links themselves", async () => {
    symlinkSync(at("logs"), at("root"));
    const rules = { neverRead: [], roots: [at("root")] };
    expect(await read(at("root/app/app.log"), rules)).toBe("logs/app/app.log\n");
    writeFileSync(at("logs-of-others"), "");
    expect(await read(at("logs-of-others"), rules)).toBe(outside);
  });
});

describe("the collector's own files", () => {
  const rules = () => ({ neverRead: [at("identity")] });
  const own = "it belongs to the collector: its identity, its config or its queue";

  it("are not read through a symbolic link", async () => {
    symlinkSync(at("identity/tls.key"), at("logs/app/planted.log"));
    symlinkSync(at("identity"), at("logs/linked"));
    expect(await read(at("logs/app/planted.log"), rules())).toBe(own);
    expect(await read(at("logs/linked/tls.key"), rules())).toBe(own);
    expect(await read(at("identity/tls.key"), rules())).toBe(own);
    symlinkSync(at("identity"), at("current"));
    expect(await read(at("identity/tls.key"), { neverRead: [at("current/tls.key")] })).toBe(own);
  });

  it("are not read through a hard link", async () => {
    mkdirSync(at("identity/pairs"));
    writeFileSync(at("identity/pairs/tls.key"), "key\n");
    linkSync(at("identity/pairs/tls.key"), at("logs/app/planted.log"));
    linkSync(at("logs/app/app.log"), at("logs/app/second.log"));
    expect(await read(at("logs/app/planted.log"), rules())).toBe(own);
    expect(await read(at("logs/app/second.log"), rules())).toBe("logs/app/app.log\n");
  });
});

describe("a symbolic link", () => {
  it("is followed only if root owns it, or the owner of its target", () => {
    expect([isTrustedLink(0, 1000), isTrustedLink(1000, 1000)]).toEqual([true, true]);
    expect([isTrustedLink(1000, 0), isTrustedLink(1000, 1001)]).toEqual([false, false]);
  });

  it.skipIf(process.geteuid?.() !== 0)(
    "of another user is not followed, wherever it is on the way",
    async () => {
      const rules = { neverRead: [] };
      const refused = "a symbolic link to it belongs neither to root nor to the file's owner";
      const plant = (target: string, path: string) => {
        symlinkSync(target, path);
        lchownSync(path, 1000, 1000);
      };
      plant(at("etc/shadow"), at("logs/app/file.log"));
      plant(at("etc"), at("logs/directory"));
      symlinkSync(at("logs/app/file.log"), at("logs/app/second.log"));
      for (const name of ["logs/app/file.log", "logs/directory/shadow", "logs/app/second.log"])
        expect(await read(at(name), rules), name).toBe(refused);
      chownSync(at("logs/app/app.log"), 1000, 1000);
      plant("app.log", at("logs/app/own.log"));
      expect(await read(at("logs/app/own.log"), rules)).toBe("logs/app/app.log\n");
    },
  );

  it("in a circle is not followed", async () => {
    symlinkSync("circle", at("logs/circle"));
    expect(await read(at("logs/circle"), { neverRead: [] })).toBe(
      "it is behind too many symbolic links",
    );
    expect(await read(at("logs/missing"), { neverRead: [] })).toBeNull();
    expect(await read(at("logs/app"), { neverRead: [] })).toBeNull();
  });
});
