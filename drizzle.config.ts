import { defineConfig } from "drizzle-kit";

/** Where `drizzle-kit generate` reads the schema and writes migrations; core applies them at start, then `drizzle/sql/`. */
export default defineConfig({
  dialect: "postgresql",
  schema: "./drizzle/schema/index.ts",
  out: "./drizzle/migrations",
});
