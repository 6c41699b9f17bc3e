/** What jsdom lacks, and a clean page for each test. */

import { cleanup, configure } from "@testing-library/react";
import { afterEach, beforeEach, vi } from "vitest";
import { FakeEventSource } from "./events";

if (!HTMLDialogElement.prototype.showModal) {
  HTMLDialogElement.prototype.showModal = function () {
    this.setAttribute("open", "");
  };
  HTMLDialogElement.prototype.close = function () {
    if (!this.hasAttribute("open")) return;
    this.removeAttribute("open");
    this.dispatchEvent(new Event("close"));
  };
}
// Escape closes a dialog in browsers; in jsdom nobody does. Once for all files that share a document.
if (!document.documentElement.dataset.closesDialogs) {
  document.documentElement.dataset.closesDialogs = "yes";
  document.addEventListener("keydown", (event) => {
    const open = [...document.querySelectorAll("dialog[open]")].at(-1);
    if (event.key === "Escape" && open && !event.defaultPrevented) open.dispatchEvent(new Event("cancel", { cancelable: true }));
  });
}
window.matchMedia ??= ((query: string) => ({ matches: false, media: query, addEventListener() {}, removeEventListener() {} })) as never;
globalThis.ResizeObserver ??= class {
  observe() {}
  unobserve() {}
  disconnect() {}
};
globalThis.CSS ??= { escape: (text: string) => text.replace(/["\\\]]/g, "\\$&") } as never;
Element.prototype.scrollIntoView ??= () => {};

configure({ asyncUtilTimeout: 5000 }); // on a busy machine

beforeEach(() => {
  vi.stubGlobal("EventSource", FakeEventSource);
  FakeEventSource.all = [];
  window.history.replaceState(null, "", "/dashboard");
});
afterEach(() => {
  cleanup();
  document.body.replaceChildren();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});
