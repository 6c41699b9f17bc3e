import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/app";
import { apply } from "./lib/theme";
import "./styles.css";

apply();
// A new version of the server has other files: the pages of the old one are fetched anew, once.
addEventListener("vite:preloadError", (event) => {
  const last = Number(sessionStorage.getItem("rota-reloaded") ?? 0);
  if (Date.now() - last < 30_000) return;
  event.preventDefault();
  sessionStorage.setItem("rota-reloaded", String(Date.now()));
  location.reload();
});
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
