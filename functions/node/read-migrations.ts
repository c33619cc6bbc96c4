import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Migration } from "../store/migrate.ts";

const migrationsFolder = new URL("../../drizzle/migrations/", import.meta.url);

/** The migrations of a folder that drizzle-kit wrote, in the order of its journal; by default those of this repository. */
export const readMigrations = async (folder: URL = migrationsFolder): Promise<Migration[]> => {
  const journal = JSON.parse(await readFile(new URL("meta/_journal.json", folder), "utf8")) as {
    entries: { tag: string }[];
  };
  return Promise.all(
    journal.entries.map(async ({ tag }) => {
      const text = await readFile(new URL(`${tag}.sql`, folder), "utf8");
      const statements = text.split("--> statement-breakpoint").filter((statement) => statement.trim() !== "");
      return { name: tag, sha256: createHash("sha256").update(text).digest("hex"), statements };
    }),
  );
};
