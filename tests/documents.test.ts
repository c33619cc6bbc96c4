import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parseCoreConfig } from "../functions/config.ts";
import { repositoryFiles } from "../scripts/repository-files.ts";

describe("the documents", () => {
  it("write every command of the repository as it runs on a bare machine", () => {
    const bare = repositoryFiles("*.md").flatMap((file) =>
      readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line.replaceAll("npx -y bun@1.4.5 run", "").includes("bun run"))
        .map((line) => `${file}: ${line}`),
    );
    expect(bare).toEqual([]);
  });

  it("show an env file for core that core accepts", () => {
    const [, block = ""] = /core\.env`.*?```sh\n(.*?)```/s.exec(readFileSync("docs/deploy.md", "utf8")) ?? [];
    const env = Object.fromEntries(
      block.split("\n").flatMap((line) => [...line.matchAll(/^ *(\w+)=(.*)$/g)].map((m) => [m[1], m[2]])),
    );
    expect(Object.keys(env).length).toBeGreaterThan(10);
    const { config, warnings } = parseCoreConfig(
      env,
      () => "postgres://svc:a-secret-of-more-than-32-bytes@db.example.net/svc",
    );
    expect(warnings).toEqual([]);
    expect(config.signer).toMatchObject({ kind: "local-ca" });
    expect(config.ingest).toMatchObject({ port: 8443 });
  });
});
