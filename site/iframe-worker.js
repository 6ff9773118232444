// Search on pages that are opened from a folder: browsers start no worker there, so a hidden frame plays one.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.waiting = [];
      this.inner.document.open();
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.onload = () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      };
      const script = this.inner.document.createElement("script");
      script.src = new URL(url, location.href).href;
      this.inner.document.write(script.outerHTML);
      this.inner.document.close();
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }
    terminate() {}
  }
  window.IFrameWorker = window.Worker = IFrameWorker;
}
