import { defineConfig } from "vitest/config";

/** Node tests: beside the code and in tests/. The route suite against workerd has a configuration of its own. */
export default defineConfig({
  test: {
    include: ["{functions,collector,proto,drizzle,scripts,tests}/**/*.test.ts"],
    exclude: ["**/node_modules/**", "tests/workerd/**"],
    environment: "node",
    pool: "threads",
    execArgv: ["--import=./tests/quicken.ts"],
    globalSetup: ["tests/global-setup.ts"],
    testTimeout: 20_000,
    hookTimeout: 60_000,
  },
});
