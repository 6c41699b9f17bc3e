import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  // Relative addresses: the server puts the path that it is reached by into index.html, and scripts find each other from there.
  base: "./",
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": here("./src") } },
  build: {
    outDir: here("../src/rota/server/dashboard"),
    emptyOutDir: true,
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // light-dark() as it is
    assetsInlineLimit: 0, // the policy of our pages forbids data: but for pictures
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 600,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: { proxy: Object.fromEntries(["/api", "/auth", "/jobs", "/healthz", "/readyz"].map((path) => [path, "http://localhost:8000"])) },
  test: {
    environment: "jsdom",
    environmentOptions: { jsdom: { url: "http://rota.test/dashboard" } },
    setupFiles: [here("./src/test/setup.ts")],
    // Files share an environment, which takes less than half of the time. Those that put something else in a module's place do not.
    projects: [
      { extends: true, test: { name: "shared", isolate: false, include: ["src/**/*.test.{ts,tsx}"], exclude: ["src/**/*.alone.test.tsx"] } },
      { extends: true, test: { name: "alone", include: ["src/**/*.alone.test.tsx"] } },
    ],
    restoreMocks: true,
    testTimeout: 30_000, // on a busy machine
    css: false,
  },
});
