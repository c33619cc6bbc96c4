import { defineConfig } from "drizzle-kit";

/** `drizzle-kit generate` turns the schema into SQL under drizzle/migrations; core applies it at boot. */
export default defineConfig({
  dialect: "postgresql",
  schema: "./drizzle/schema/index.ts",
  out: "./drizzle/migrations",
});
